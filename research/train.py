"""THE loop: build, restore, step, evaluate, save. It knows no objective."""

import contextlib
import json
import math
import sys
import time
from collections.abc import Sequence
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
from etils import epath

from research.checkpoints.checkpoint import Checkpoints
from research.checkpoints.partial_restore import initial_params
from research.data.progress import progress
from research.distributed import processes, sharding
from research.distributed.failure_detector import Peers
from research.errors import NonFiniteLossError, PreemptedError
from research.run import metric_writer, provenance
from research.run.flops import Cost
from research.run.setup import (
    Program,
    build,
    compile_step,
    described,
    eval_batches,
    eval_zeros,
    fresh,
    tokens,
    train_batches,
)
from research.run.state import State, count


def train(
    config: Any,
    workdir: epath.PathLike,
    *,
    devices: Sequence[jax.Device] | None = None,
    peers: Peers | None = None,
) -> dict[str, Any]:
    """Trains a config to its end, from wherever its workdir stands.

    In a run of several processes each calls this with the same config and workdir;
    process 0 alone writes what is not a checkpoint.

    Args:
      config: resolved and locked, with the sections of experiments/base.py.
      workdir: receives config.json, provenance.json, the vocabulary, metrics.jsonl,
        speed.jsonl, TensorBoard events, checkpoints and at the end result.json.
      devices: all there are unless given.
      peers: the processes of the run; this one alone unless given.

    Returns:
      the content of result.json, complete in process 0.

    Raises:
      UserError: something in the config or the workdir is not right.
      NonFiniteLossError: the loss is infinite or not a number.
      PreemptedError: the run was asked to stop, and is saved.
    """
    began, workdir, plain = time.monotonic(), epath.Path(workdir), config.to_dict()
    if (workdir / "config.json").exists():
        old = json.loads((workdir / "config.json").read_text())
        provenance.check_same(workdir, old, plain)
    if processes.from_first((workdir / "result.json").exists()):
        _say(f"{workdir} has its result already")
        return json.loads((workdir / "result.json").read_text())
    provenance.make(workdir)
    program = build(config, devices)
    origin = provenance.gather(program.data.fingerprint)
    provenance.write(workdir, plain, origin)
    if program.data.vocabulary and _first():
        program.data.vocabulary.save(workdir)
    step, cost, seconds = _compile(program, config)
    loop = Loop(program, step, config, workdir, peers or Peers())
    with sharding.context(program.mesh):
        loop.run()
    result = {
        "steps": config.train.steps,
        "metrics": loop.writer.latest(),
        "parameters": count(program.abstract.params),
        "tokens_seen": config.train.steps * tokens(config),
        "tokens_scored": loop.writer.latest().get("tokens_scored"),  # told to process 0
        "flops_per_step": cost.flops,
        "flops_per_token": cost.flops / tokens(config),
        "recomputed_flops_per_step": cost.recomputed_flops,
        "peak_bytes": cost.peak_bytes,
        "compile_seconds": seconds,
        "train_seconds": loop.seconds,
        "wall_seconds": time.monotonic() - began,
        "config": plain,
        "provenance": origin,
    }
    if _first():
        metric_writer.write_json(workdir / "result.json", result)
    return result


def _first() -> bool:
    """Whether this process is the one that writes and speaks."""
    return jax.process_index() == 0


def _say(line: str) -> None:
    if _first():
        print(line, file=sys.stderr, flush=True)


def _compile(program: Program, config: Any) -> tuple[Any, Cost, float]:
    """Compiles the step and tells what it costs before it is run."""
    began = time.monotonic()
    step, cost = compile_step(program)
    seconds = time.monotonic() - began
    for line in (*described(program, config, cost), f"compiled in {seconds:.1f} s"):
        _say(line)
    return step, cost, seconds


class Loop:
    """One run's state on the host: what is written down, saved and due.

    The host reads the metrics of a step only after it has started the next one.
    """

    def __init__(
        self, program: Program, step: Any, config: Any, workdir: Any, peers: Peers
    ):
        self.program, self.step, self.config = program, step, config
        self.train, self.peers = config.train, peers
        self.workdir = epath.Path(workdir)
        self.checkpoints = Checkpoints(workdir, keep=config.train.keep_checkpoints)
        self.writer: metric_writer.Writer
        self.copy = jax.jit(lambda tree: jax.tree.map(jnp.copy, tree))
        self.nothing = eval_zeros(program)
        self.seconds = 0.0  # in steps, without compiling, evaluating and saving
        self.window = 0.0  # those of them since the last line
        self.mark = 0.0  # when the clock was read last
        self.read = 0  # the last step whose metrics are written
        self.saved = 0  # the last step that is saved, or being saved
        self.note = ""  # what stands beside the progress bar

    def run(self) -> None:
        """From the newest checkpoint, or the beginning, to the last step."""
        state, start = self.start()
        batches = train_batches(self.program, start, self.train.steps)
        try:
            if processes.from_first(self._lacks_evaluation(start)):
                self._evaluate(start, state)
            report, guard = _progress(self.train.steps), jax.transfer_guard("disallow")
            with report as self.report, guard:
                self.steps(state, start, self.train.steps, batches)
        except BaseException:
            with contextlib.suppress(Exception):  # the first error is the one to tell
                self.close()
            raise
        finally:
            batches.close()
        self.close()

    def steps(self, state: State, start: int, stop: int, batches: Any) -> State:
        """Steps `start` to `stop` of the run, and what is due between them."""
        pending, self.mark = None, time.monotonic()
        for done in range(start + 1, stop + 1):
            if self.peers.stops():
                self._log(*(pending or (done - 1, state.sums)), partial=not pending)
                self._stop(done - 1, state)
            state = self.step(state, next(batches))
            if pending:
                self._log(*pending)
                pending = None
            self.report(done, self.note)
            if self._due(done, self.train.log_every):
                pending = done, self.copy(state.sums)
            evaluates = self._due(done, self.train.eval_every)
            saves = self._due(done, self.train.checkpoint_every)
            if evaluates or saves:
                self._log(*(pending or (done, state.sums)), partial=not pending)
                pending = None
                if saves:
                    self._save(done, state)
                if evaluates:
                    self._evaluate(done, state)
                self.mark = time.monotonic()
        if pending:
            self._log(*pending)
        return state

    def _due(self, step: int, every: int) -> bool:
        return step == self.train.steps or (every > 0 and step % every == 0)

    def _lacks_evaluation(self, step: int) -> bool:
        """Whether the run ended when it had saved this step and not evaluated it."""
        split = f"{self.config.data.eval_split}/loss"
        have = any(split in x for x in self.writer.lines if x["step"] == step)
        return step > 0 and self._due(step, self.train.eval_every) and not have

    def _stop(self, step: int, state: State) -> NoReturn:
        if self.saved != step:
            self._save(step, state)
        self.checkpoints.wait()
        raise PreemptedError(
            f"{self.workdir}: stopped after step {step}, which is saved; the same "
            "command goes on from there"
        )

    def close(self) -> None:
        """Waits for the checkpoint that is being saved and closes the files."""
        self.checkpoints.close()
        self.writer.close()

    def start(self) -> tuple[State, int]:
        """The state to go on from, and the steps it has done."""
        state, step = self._restored() or (self._fresh(), 0)
        self.writer = metric_writer.Writer(self.workdir, step=step, silent=not _first())
        self.read = step
        return state, step

    def _restored(self) -> tuple[State, int] | None:
        found = self.checkpoints.restore(self.program.abstract)
        if found is None:
            return None
        provenance.check_data(self.workdir, found.facts["data"], self.program.data)
        self.seconds, self.saved = found.facts["seconds"], found.step
        _say(f"{self.workdir}: goes on from step {found.step}")
        return found.state, found.step

    def _fresh(self) -> State:
        state = fresh(self.program, self.config.seed)
        if not self.train.init_from:
            return state
        params, stayed = initial_params(
            self.train.init_from,
            self.train.init_scope,
            state.params,
            vocabulary=self.program.data.vocabulary_hash,
        )
        names = f", but for {', '.join(stayed)}" if stayed else ""
        _say(f"starts from the parameters of {self.train.init_from}{names}")
        return state._replace(params=params)

    def _log(self, step: int, sums: Any, *, partial: bool = False) -> None:
        """TextSpec a step's metrics; a partial window is only checked, not written."""
        sums = jax.device_get(sums)
        means = metric_writer.means(sums)
        if not math.isfinite(means["loss"]):
            raise NonFiniteLossError(
                f"{self.workdir}: train/loss is {means['loss']} by step {step} (step "
                f"{self.saved} is saved); a lower optimizer.learning_rate, a longer "
                "optimizer.warmup_steps or optimizer.clip_norm may mend it"
            )
        now = time.monotonic()
        self.seconds += now - self.mark
        self.window += now - self.mark
        self.mark = now
        if partial:
            return
        rate = (step - self.read) * tokens(self.config) / self.window
        self.read, self.window = step, 0.0
        tokens_scored = self.writer.latest().get("tokens_scored", 0.0)
        line = {f"train/{name}": value for name, value in means.items()}
        line["tokens_seen"] = step * tokens(self.config)
        line["tokens_scored"] = tokens_scored + metric_writer.scored(sums)
        self.writer.write(step, line)
        speed = {"seconds": self.seconds, "tokens_per_second": rate}
        self.writer.write_speed(step, speed)
        self.checkpoints.check()
        self.note = f"step {step}, loss {means['loss']:.4f}, {rate:,.0f} tokens/s"

    def _evaluate(self, step: int, state: State) -> None:
        """The whole evaluation split, every token with the same weight."""
        sums, carry = self.nothing()
        for batch in eval_batches(self.program):
            # One at a time: batches depend on each other by their sums alone, and many
            # under way could leave a CPU's collectives without a thread to meet on.
            if self.peers.stops():
                self._stop(step, state)
            jax.block_until_ready(sums)
            sums, carry = self.program.evaluate(state.params, carry, sums, batch)
        means = metric_writer.means(jax.device_get(sums))
        split = self.config.data.eval_split
        self.writer.write(step, {f"{split}/{name}": x for name, x in means.items()})

    def _save(self, step: int, state: State) -> None:
        facts = {
            "data": self.program.data.fingerprint,
            "vocabulary": self.program.data.vocabulary_hash,
            "seconds": self.seconds,
        }
        self.checkpoints.save(step, state, facts)
        self.saved = step


def _progress(total: int) -> Any:
    silent = contextlib.nullcontext(lambda done, note: None)
    return progress("train", total) if _first() else silent
