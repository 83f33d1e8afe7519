"""Runs of the train loop that take seconds, on a corpus of a few hundred sentences."""

import random

import jax
import numpy as np
import orbax.checkpoint as ocp

from launch.config import load_config
from research import train as loop
from research.checkpoints.checkpoint import Checkpoints, finished_steps
from research.config.config import Config
from research.config.identity import write_run_config
from research.distributed.peers import Peers
from research.program.setup import build_program, label_facts
from research.record.workdir import config_digest

WORDS = ("the", "a", "old", "small", "river", "stone", "reads", "sees", "and", "by")


def write_corpus(folder):
    """A corpus of a few hundred sentences, and the cache beside it."""
    draw = random.Random(0)
    documents = [
        ". ".join(" ".join(draw.choices(WORDS, k=8)) for _ in range(6)) + "."
        for _ in range(300)
    ]
    (folder / "corpus").mkdir()
    (folder / "corpus" / "text.txt").write_text("\n\n".join(documents))
    return folder


def tiny_settings(folder):
    """Dotted key -> value: a network and a run of seconds on the corpus of a folder."""
    return {
        "data.corpus": str(folder / "corpus"),
        "data.cache_dir": str(folder / "cache"),
        "data.held_out": 0.1,
        "data.vocabulary": "unigram",
        "data.vocabulary_size": 384,
        "data.length": 32,
        "model.layers": 1,
        "model.width": 32,
        "model.heads": 2,
        "model.feedforward": 64,
        "model.dropout": 0.0,
        "optimizer.warmup_steps": 2,
        "optimizer.learning_rate": 0.01,
        "train.steps": 12,
        "train.batch": 16,
        "train.log_every": 3,
        "train.eval_every": 6,
        "train.checkpoint_every": 5,
    }


def tiny_config(folder, objective="mlm", **overrides):
    """An experiment's config; an override None leaves out a key of ours."""
    settings = tiny_settings(folder) | overrides
    given = {key: value for key, value in settings.items() if value is not None}
    return load_config(f"experiments/{objective}.py", given)


def train(config, workdir, devices=1):
    return loop.train(Config.of(config), workdir, devices=jax.devices()[:devices])


def random_state(program):
    """A state with random parameters, since `program.init` takes long to compile."""
    shapes, rng = program.abstract_state, np.random.default_rng(0)
    zeros = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), shapes)
    params = jax.tree.map(
        lambda leaf: rng.normal(0, 0.2, leaf.shape).astype(leaf.dtype), shapes.params
    )
    where = jax.tree.map(lambda leaf: leaf.sharding, shapes)
    return jax.device_put(zeros._replace(params=params), where)


def save_untrained(workdir, config):
    """The workdir of a run with a checkpoint of a random state, which is also given,
    and its vocabulary."""
    program = build_program(Config.of(config), jax.devices()[:1])
    state = random_state(program)
    checkpoints = Checkpoints(workdir, keep=1)
    facts = {"seconds": 0.0, "tokens_scored": 0.0, "data": "abc", "step": 3}
    facts["vocabulary"] = program.data.vocabulary_hash
    facts |= label_facts(program)
    facts["config"] = config_digest(config.values)
    checkpoints.save(3, state, facts)
    checkpoints.close()
    write_run_config(workdir, config.values)
    program.data.vocabulary.save(workdir)
    program.objective.save_to(workdir)
    return workdir, state, program.data.vocabulary


def last_params(workdir):
    folder = workdir / "checkpoints"
    path = folder / str(next(finished_steps(folder))) / "params"
    with ocp.Checkpointer(ocp.StandardCheckpointHandler()) as checkpointer:
        return jax.tree.map(np.asarray, checkpointer.restore(path))


class StoppingPeers(Peers):
    """Stops the run at the nth check."""

    def __init__(self, nth):
        super().__init__()
        self.checks_left = nth

    def should_stop(self):
        self.checks_left -= 1
        return self.checks_left == 0
