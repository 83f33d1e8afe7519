"""Prints what steps and texts of diffusion and of drafts cost beside lm and mlm.

    taskset -c 0 python -m experiments.studies.diffusion_speed [--drafts=RUN]

Small networks take turns in one process. Of each the median CPU time of all threads,
which other work on the machine changes little, and the median of its ratios to what it
is beside, turn by turn, with their quartiles. Of train steps also XLA's count of FLOPs;
of texts of 256 tokens, one at a time, the passes through the network, whose parameters
are random. RUN is a run of `multi_token` on a file, the first rows of which it goes on
with; its texts by drafts have to be those of greedy decoding.
"""

import argparse
import dataclasses
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from launch.config import load_config
from launch.measure.placeholder_vocab import placeholder_vocab
from launch.measure.random_batch import random_batch
from research.distributed import sharding
from research.generation.generate import make_generate
from research.generation.samplers import Sampler, make_sampler
from research.program.compiled_phases import compile_step
from research.program.setup import build_program, initial_state
from research.use.inference.open_run import open_run

ROUNDS = 7
BLOCKS = ("masked diffusion, blocks of 4", "masked diffusion, blocks of 16")
EXPERIMENTS: dict[str, tuple[str, dict[str, Any]]] = {
    "lm": ("lm", {}),
    "mlm": ("mlm", {}),
    "masked diffusion": ("mdlm", {}),
    BLOCKS[0]: ("mdlm", {"objective.block_size": 4}),
    BLOCKS[1]: ("mdlm", {"objective.block_size": 16}),
}
BESIDE = {
    "lm": ("lm", 1),
    "mlm": ("lm", 1),
    "masked diffusion": ("mlm", 1),
    **dict.fromkeys(BLOCKS, ("lm", 2)),
}
"""Objective -> what its step is compared with, and how many steps of that."""
SMALL = {
    **{"train.batch": 16, "data.length": 128, "data.vocabulary": "unigram"},
    **{"data.vocabulary_size": 8192, "model.dropout": 0.0, "optimizer.ema_decay": 0.0},
    **{"model.position": "rotary", "model.tie_embeddings": True},
    **{"model.output_head": "table", "optimizer.weight_decay": 0.0},
}
SMALLER = SMALL | {
    **{"model.layers": 2, "model.width": 128, "model.heads": 2},
    **{"model.feedforward": 512, "data.vocabulary_size": 1024},
}
"""Of the networks that write: in some samplers a token is a pass over the whole row."""
NUM_TOKENS = 256
NUM_GIVEN, NUM_DRAFTED, NUM_ROWS = 16, 96, 5
"""Drafts are measured on so many texts, which begin with so many given tokens."""
CACHED = "lm, greedy (cached)"
WRITERS: dict[str, tuple[str, dict[str, Any]]] = {
    CACHED: ("lm", {"method": "greedy", "min_tokens": NUM_TOKENS - 1}),
    "masked diffusion, ancestral, 128 steps": (
        "masked diffusion",
        {"method": "ancestral", "steps": 128},
    ),
    "masked diffusion, confidence, 64 steps": (
        "masked diffusion",
        {"method": "confidence", "steps": 64},
    ),
    "masked diffusion, confidence, a token a step": (
        "masked diffusion",
        {"method": "confidence"},
    ),
    "masked diffusion, first_hitting": (
        "masked diffusion",
        {"method": "first_hitting"},
    ),
    f"{BLOCKS[1]}, ancestral, 128 steps": (
        BLOCKS[1],
        {"method": "ancestral", "steps": 128},
    ),
    f"{BLOCKS[1]}, first_hitting": (BLOCKS[1], {"method": "first_hitting"}),
}


class Written(NamedTuple):
    """What a sampler wrote, and how many passes through the network it took."""

    texts: list[list[int]]
    passes: int


def main(drafts: str) -> None:
    steps = {name: make_step(*_program(name, SMALL)) for name in EXPERIMENTS}
    seconds = alternate({name: run for name, (run, _) in steps.items()})
    flops = {name: count for name, (_, count) in steps.items()}
    print("train step | CPU seconds | beside | time | FLOPs")
    for name, (other, count) in BESIDE.items():
        words = other if count == 1 else f"{count} steps of {other}"
        print(
            f"{name} | {np.median(seconds[name]):.3f} | {words} | "
            f"{_ratio(seconds[name], count * seconds[other])} | "
            f"{flops[name] / flops[other] / count:.2f}",
            flush=True,
        )
    programs = {name: _program(name, SMALLER) for name, _ in WRITERS.values()}
    writers, passes = {}, {}
    for name, (experiment, options) in WRITERS.items():
        program, vocab = programs[experiment]
        with sharding.context(program.mesh):
            params = initial_state(program, 0).params
        of_run = program.objective, program.network, params, vocab, program.mesh
        sampler = make_sampler(max_tokens=NUM_TOKENS, **options)
        prompts = [vocab.ordinary_ids[:8].tolist()]
        writers[name] = make_writer(of_run, sampler, prompts)
        found = count_passes(of_run, sampler, prompts)
        assert [len(text) for text in found.texts] == [NUM_TOKENS], name
        passes[name] = found.passes
    seconds = alternate(writers)
    print(f"\n{NUM_TOKENS} tokens | passes | CPU seconds | beside {CACHED}")
    for name, each in seconds.items():
        print(
            f"{name} | {passes[name]} | {np.median(each):.3f} | "
            f"{_ratio(each, seconds[CACHED])}",
            flush=True,
        )
    if drafts:
        compare_drafts(drafts)


def compare_drafts(workdir: str) -> None:
    """Prints passes and time of drafts beside greedy decoding, of the same texts."""
    run = open_run(workdir).run
    vocab = run.vocabulary.vocab
    of_run = run.objective, run.network, run.params, vocab, run.mesh
    text = Path(run.config.data.train).read_text("utf-8")
    token, length = run.vocabulary.encode(text)[0].tolist(), run.config.data.length
    starts = range(0, NUM_ROWS * length, length)
    prompts = [token[at : at + NUM_GIVEN] for at in starts]
    samplers = {"greedy": make_sampler(method="greedy", max_tokens=NUM_DRAFTED)}
    for number in range(1, 1 + run.objective.num_drafts):
        options = {"max_tokens": NUM_DRAFTED, "drafts": number}
        samplers[f"{number} drafts"] = make_sampler(method="speculative", **options)
    found = {n: count_passes(of_run, each, prompts) for n, each in samplers.items()}
    assert all(each.texts == found["greedy"].texts for each in found.values())
    seconds = alternate(
        {n: make_writer(of_run, each, prompts) for n, each in samplers.items()}
    )
    print(f"\n{len(prompts)} texts | tokens | passes | CPU seconds | beside greedy")
    for name, (texts, passes) in found.items():
        print(
            f"{name} | {sum(map(len, texts))} | {passes} | "
            f"{np.median(seconds[name]):.3f} | "
            f"{_ratio(seconds[name], seconds['greedy'])}"
        )


def _program(name: str, settings: Mapping[str, Any]) -> tuple[Any, Any]:
    """The program of one of EXPERIMENTS, and its vocabulary."""
    experiment, changes = EXPERIMENTS[name]
    config = load_config(f"experiments/{experiment}.py", settings | changes)
    vocab = placeholder_vocab(config)
    return build_program(config, vocab=vocab), vocab


def make_step(program: Any, vocab: Any) -> tuple[Callable[[], None], float]:
    """A function that runs a step, and XLA's count of its FLOPs."""
    step, cost = compile_step(program)
    rows, length = program.abstract_batch["example"].shape[0], SMALL["data.length"]
    batch = random_batch(program.objective, vocab, rows, length)
    batch = sharding.to_devices(batch, program.abstract_batch)
    with sharding.context(program.mesh):
        held = [initial_state(program, 0)]

    def run() -> None:
        held[0] = step(held[0], batch)
        jax.block_until_ready(held[0])

    return run, cost.flops


def make_writer(of_run: tuple[Any, ...], sampler: Sampler, prompts: Any) -> Callable:
    """A function that continues the prompts, one after the other."""
    generate = make_generate(*of_run, sampler, batch=1)
    return lambda: [text[0].tokens for text in generate(prompts)]


def count_passes(of_run: tuple[Any, ...], sampler: Sampler, prompts: Any) -> Written:
    """Runs a sampler that counts how often it reads the network."""
    passes: list[None] = []

    class Counting(type(sampler)):  # type: ignore[misc]
        def write(self, writer: Any, rows: Any, layout: Any) -> Any:
            def apply(fn: Callable) -> Any:
                jax.debug.callback(lambda: passes.append(None))
                return writer.apply(fn)

            return super().write(writer._replace(apply=apply), rows, layout)

    fields = {f.name: getattr(sampler, f.name) for f in dataclasses.fields(sampler)}
    texts = make_writer(of_run, Counting(**fields), prompts)()
    jax.effects_barrier()
    return Written(texts, len(passes))


def alternate(runs: Mapping[str, Callable]) -> dict[str, np.ndarray]:
    """Name -> CPU seconds [ROUNDS]; all take turns, and a turn before compiles."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(1 + ROUNDS):
        for name, run in runs.items():
            begin = time.process_time()
            run()
            seconds[name].append(time.process_time() - begin)
    return {name: np.array(each[1:]) for name, each in seconds.items()}


def _ratio(seconds: np.ndarray, others: np.ndarray) -> str:
    """The median of the ratios of each turn, and their quartiles."""
    low, median, high = np.quantile(seconds / others, (0.25, 0.5, 0.75))
    return f"{median:.3g} ({low:.3g} to {high:.3g})"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--drafts", default="", help="a run of multi_token")
    main(parser.parse_args().drafts)
