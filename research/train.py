"""THE loop: build, restore, step, evaluate, save. It knows no objective."""

import json
import math
import sys
import time
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from etils import epath

from research import metrics, provenance, sharding
from research.checkpoint import Checkpoints, initial_params
from research.cost import Cost
from research.data.progress import progress
from research.errors import UserError
from research.program import Program, build, compile_step, eval_batches, train_batches
from research.state import GRADIENT_NORM, State, count


class NonFiniteLossError(ArithmeticError):
    """The loss is not a number any more."""


def train(
    config: Any, workdir: epath.PathLike, *, devices: Sequence[jax.Device] | None = None
) -> dict[str, Any]:
    """Trains a config to its end, from wherever its workdir stands.

    Args:
      config: resolved and locked, with the sections of experiments/base.py.
      workdir: receives config.json, provenance.json, the vocabulary, metrics.jsonl,
        speed.jsonl, TensorBoard events, checkpoints and at the end result.json.
      devices: all there are unless given.

    Returns:
      the content of result.json.

    Raises:
      UserError: something in the config or the workdir is not right.
      NonFiniteLossError: the loss is infinite or not a number.
    """
    began, workdir, plain = time.monotonic(), epath.Path(workdir), config.to_dict()
    if (workdir / "config.json").exists():
        old = json.loads((workdir / "config.json").read_text())
        provenance.check_same(workdir, old, plain)
    if (workdir / "result.json").exists():
        _say(f"{workdir} has its result already")
        return json.loads((workdir / "result.json").read_text())
    try:
        workdir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"--workdir={workdir} cannot be made ({error.strerror}); give a folder "
            "that can be written"
        ) from error
    program = build(config, devices)
    origin = provenance.gather(program.data.fingerprint)
    provenance.write(workdir, plain, origin)
    if program.data.vocabulary:
        program.data.vocabulary.save(workdir)
    step, cost, seconds = _compile(program, config)
    loop = Loop(program, step, config, workdir)
    with sharding.context(program.mesh):
        loop.run()
    result = {
        "steps": config.train.steps,
        "metrics": loop.writer.latest(),
        "parameters": count(program.abstract.params),
        "tokens_seen": config.train.steps * _tokens(config),
        "tokens_scored": loop.writer.latest()["tokens_scored"],
        "flops_per_step": cost.flops,
        "flops_per_token": cost.flops / _tokens(config),
        "peak_bytes": cost.peak_bytes,
        "compile_seconds": seconds,
        "train_seconds": loop.seconds,
        "wall_seconds": time.monotonic() - began,
        "config": plain,
        "provenance": origin,
    }
    metrics.write_json(workdir / "result.json", result)
    return result


def _tokens(config: Any) -> int:
    """Tokens of clean text a step."""
    return config.train.batch * config.data.length


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _compile(program: Program, config: Any) -> tuple[Any, Cost, float]:
    """Compiles the step and tells what it costs before it is run."""
    began = time.monotonic()
    step, cost = compile_step(program)
    seconds = time.monotonic() - began
    mesh = " x ".join(f"{name} {size}" for name, size in program.mesh.shape.items())
    _say(
        f"{config.objective.name}: {count(program.abstract.params):,} parameters, "
        f"{cost.flops / 1e9:,.1f} GFLOP a step, "
        f"{cost.flops / _tokens(config) / 1e6:,.1f} MFLOP a token, "
        f"{cost.peak_bytes / 2**20:,.0f} MiB a device on mesh {mesh}; "
        f"compiled in {seconds:.1f} s"
    )
    counts = [f"{k} {v:,}" for k, v in program.data.counts.items() if v]
    _say(f"text: {', '.join(counts)}" if counts else "text: not counted")
    for dim in program.whole:
        _say(f"stays whole on every device, since it does not divide: {dim}")
    return step, cost, seconds


class Loop:
    """One run's state on the host: what is written down, saved and due.

    The host reads the metrics of a step only after it has started the next one.
    """

    def __init__(self, program: Program, step: Any, config: Any, workdir: Any):
        self.program, self.step, self.config = program, step, config
        self.train = config.train
        self.workdir = epath.Path(workdir)
        self.checkpoints = Checkpoints(workdir, keep=config.train.keep)
        self.writer: metrics.Writer
        self.copy = jax.jit(lambda tree: jax.tree.map(jnp.copy, tree))
        self.seconds = 0.0  # in steps, without compiling, evaluating and saving
        self.window = 0.0  # those of them since the last line
        self.mark = 0.0  # when the clock was read last
        self.read = 0  # the last step whose metrics are written
        self.note = ""  # what stands beside the progress bar

    def run(self) -> None:
        """From the newest checkpoint, or the beginning, to the last step."""
        state, start = self.start()
        batches = train_batches(self.program, start, self.train.steps)
        with progress("train", self.train.steps) as self.report:
            try:
                with jax.transfer_guard("disallow"):
                    self.steps(state, start, self.train.steps, batches)
            finally:
                batches.close()
                self.close()

    def steps(self, state: State, start: int, stop: int, batches: Any) -> State:
        """Steps `start` to `stop` of the run, and what is due between them."""
        pending, self.mark = None, time.monotonic()
        for done in range(start + 1, stop + 1):
            state = self.step(state, next(batches))
            if pending:
                self._log(*pending)
                pending = None
            self.report(done, self.note)
            last = done == self.train.steps
            if last or done % self.train.log_every == 0:
                pending = done, self.copy(state.sums)
            evaluates = last or _due(done, self.train.eval_every)
            saves = last or _due(done, self.train.checkpoint_every)
            if evaluates or saves:
                self._log(*(pending or (done, state.sums)), partial=not pending)
                pending = None
                if evaluates:
                    self._evaluate(done, state)
                if saves:
                    self._save(done, state)
                self.mark = time.monotonic()
        if pending:
            self._log(*pending)
        return state

    def close(self) -> None:
        """Waits for the checkpoint that is being saved and closes the files."""
        self.checkpoints.close()
        self.writer.close()

    def start(self) -> tuple[State, int]:
        """The state to go on from, and the steps it has done."""
        state, step = self._restored() or (self._fresh(), 0)
        self.writer = metrics.Writer(self.workdir, step=step)
        self.read = step
        return state, step

    def _restored(self) -> tuple[State, int] | None:
        saved = self.checkpoints.latest()
        if saved is None:
            return None
        state, facts = self.checkpoints.restore(saved, self.program.abstract)
        provenance.check_data(self.workdir, facts["data"], self.program.data)
        self.seconds = facts["seconds"]
        _say(f"{self.workdir}: goes on from step {saved}")
        return state, saved

    def _fresh(self) -> State:
        whole = sharding.replicated(self.program.mesh)
        key = jax.device_put(jax.random.key(self.config.seed), whole)
        state = self.program.init(key)
        if not self.train.init_from:
            return state
        params, fresh = initial_params(
            self.train.init_from,
            self.train.init_scope,
            state.params,
            vocabulary=self.program.data.vocabulary_hash,
        )
        names = f", but for {', '.join(fresh)}" if fresh else ""
        _say(f"starts from the parameters of {self.train.init_from}{names}")
        return state._replace(params=params)

    def _log(self, step: int, sums: Any, *, partial: bool = False) -> None:
        """Reads a step's metrics; a partial window is only checked, not written."""
        sums = jax.device_get(sums)
        means = metrics.means(sums)
        if not math.isfinite(means["loss"]):
            saved = self.checkpoints.latest()
            where = f"step {saved} is saved" if saved else "nothing is saved"
            raise NonFiniteLossError(
                f"{self.workdir}: train/loss is {means['loss']} by step {step} "
                f"({where}); a lower optimizer.learning_rate, a longer "
                "optimizer.warmup_steps or optimizer.clip may mend it"
            )
        now = time.monotonic()
        self.seconds += now - self.mark
        self.window += now - self.mark
        self.mark = now
        if partial:
            return
        rate = (step - self.read) * _tokens(self.config) / self.window
        self.read, self.window = step, 0.0
        tokens_scored = self.writer.latest().get("tokens_scored", 0.0)
        line = {f"train/{name}": value for name, value in means.items()}
        line["tokens_seen"] = step * _tokens(self.config)
        line["tokens_scored"] = tokens_scored + metrics.scored(sums)
        self.writer.write(step, line)
        with (self.workdir / "speed.jsonl").open("a") as file:
            speed = {"step": step, "seconds": self.seconds, "tokens_per_second": rate}
            file.write(json.dumps(speed) + "\n")
        self.note = f"step {step}, loss {means['loss']:.4f}, {rate:,.0f} tokens/s"

    def _evaluate(self, step: int, state: State) -> None:
        """The whole evaluation split, every token with the same weight."""
        abstract = self.program.abstract
        sums = {k: v for k, v in abstract.sums.items() if k != GRADIENT_NORM}
        sums, carry = jax.tree.map(
            lambda leaf: jax.device_put(
                np.zeros(leaf.shape, leaf.dtype), leaf.sharding
            ),
            (sums, abstract.carry),
        )
        for batch in eval_batches(self.program):
            # One at a time: batches depend on each other by their sums alone, and many
            # under way could leave a CPU's collectives without a thread to meet on.
            jax.block_until_ready(sums)
            sums, carry = self.program.evaluate(state.params, carry, sums, batch)
        means = metrics.means(jax.device_get(sums))
        split = self.config.data.eval_split
        self.writer.write(step, {f"{split}/{name}": x for name, x in means.items()})

    def _save(self, step: int, state: State) -> None:
        facts = {
            "data": self.program.data.fingerprint,
            "vocabulary": self.program.data.vocabulary_hash,
            "seconds": self.seconds,
        }
        self.checkpoints.save(step, state, facts)


def _due(step: int, every: int) -> bool:
    return every > 0 and step % every == 0
