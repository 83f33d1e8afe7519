"""The train loop: build, restore, step, evaluate, save. It knows no objective."""

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
from etils import epath

from research.checkpoints.checkpoint import Checkpoints
from research.config.config import Config
from research.config.identity import flatten, write_run_config
from research.config.phases import Phase
from research.contract.batch import Batch
from research.contract.errors import NonFiniteError, PreemptedError
from research.data.progress import progress
from research.distributed import processes, sharding
from research.distributed.peers import Peers
from research.evaluation.best_evaluation import check_best_metric
from research.evaluation.evaluations import Evaluations
from research.evaluation.rated_pairs import CORRELATIONS, rated_program
from research.files.json_files import write_json
from research.files.paths import user_path
from research.optimize.schedule import logged_rates
from research.program.compiled_phases import (
    build_phases,
    compile_phases,
    cost_facts,
    run_lines,
    steps_and_batches,
    tokens_seen,
)
from research.program.setup import Program, count_parameters, first_state, label_facts
from research.program.start import check_start
from research.program.step import host_means, num_scored
from research.program.step_trace import StepTrace
from research.program.words_seen import FILE as WORDS_FILE
from research.program.words_seen import UNCOUNTED, WordPlan, make_plan
from research.record import provenance
from research.record.metric_writer import MetricWriter
from research.record.workdir import (
    check_same_run,
    config_digest,
    open_workdir,
    write_result,
)


def train(
    config: Config,
    workdir: epath.PathLike,
    *,
    devices: Sequence[jax.Device] | None = None,
    peers: Peers | None = None,
) -> dict[str, Any]:
    """Trains a config to its last step, from the newest checkpoint of its workdir.

    In a run of several processes each calls this with the same config and workdir;
    only process 0 writes files other than checkpoints.

    Args:
      config: resolved and locked, with the sections of research/config/base.py.
      workdir: receives config.json, provenance.json, the vocabulary, metrics.jsonl,
        speed.jsonl, TensorBoard events (and the trace of train.profile_steps),
        checkpoints and at the end result.json, and predictions/SPLIT.jsonl if the
        objective predicts.
      devices: all of jax.devices() by default.
      peers: the processes of the run; by default only this one.

    Returns:
      the content of result.json, complete in process 0.

    Raises:
      UserError: something in the config or the workdir is wrong.
      NonFiniteError: the loss is infinite or not a number.
      PreemptedError: the run was asked to stop, and is saved.
    """
    workdir = epath.Path(user_path(workdir))
    with open_workdir(workdir, config.values) as result:
        return result or _train(config, workdir, devices, peers or Peers())


def _train(
    config: Config,
    workdir: epath.Path,
    devices: Sequence[jax.Device] | None,
    peers: Peers,
) -> dict[str, Any]:
    """`train`, as the only writer of the workdir."""
    start_time, config_dict = time.monotonic(), config.values
    program, phases = build_phases(config, devices)
    pairs = rated_program(program, config)
    if config.train.best_metric:
        check_best_metric(program, config, CORRELATIONS if pairs else ())
    check_start(program, config, workdir)
    words = make_plan(phases, config.train)
    origin = provenance.gather_provenance(
        program.data.fingerprint, program.constants.origins
    )
    provenance.write_provenance(workdir, config_dict, origin)
    compile_start = time.monotonic()
    phases = compile_phases(phases)
    compile_seconds = time.monotonic() - compile_start
    compiled = f"compiled in {compile_seconds:.1f} s"
    lines = [*run_lines(program, phases, config), compiled]
    if len(words.seen):
        lines.append(words.line(config.train.max_words))
    if config.train.minutes:
        lines.append(
            f"the run ends after {config.train.minutes:g} minutes of steps, or after "
            f"{config.train.steps} steps; the learning rate and all else that depends "
            "on how many steps there are go by the latter"
        )
    for line in lines:
        processes.print_from_process_0(line)
    with sharding.context(program.mesh):
        loop = Loop(program, phases, config, workdir, peers, words, pairs)
        if jax.process_index() == 0:  # after checking that the checkpoints match
            write_run_config(workdir, config_dict)
            if len(words.seen):
                write_json(workdir / WORDS_FILE, words.to_json())
            if program.data.vocabulary:
                program.data.vocabulary.save(workdir)
            program.objective.save_to(workdir)
        loop.run()
    result = {
        "steps": loop.steps_done,
        "best_step": loop.evaluations.best.step,  # 0: without train.best_metric
        "metrics": loop.writer.latest(),
        "ranges": loop.evaluations.ranges,
        "token_entropy": program.data.token_entropy,
        "parameters": count_parameters(program.abstract_state.params),
        "tokens_scored": loop.tokens_scored,
        **cost_facts(phases, loop.steps_done),
        "compile_seconds": compile_seconds,
        "train_seconds": loop.seconds,
        "wall_seconds": time.monotonic() - start_time,
        "item_scores": loop.evaluations.item_scores,
        "margins": loop.evaluations.margins,
        "notes": loop.evaluations.notes,
        "config": config_dict,
        "provenance": origin | loop.evaluations.origin,
    }
    write_result(workdir, result)
    return result


class Loop:
    """One run on the host: its state, and what is logged, evaluated and saved.

    It starts with the state of the newest checkpoint or an initial one. The host reads
    the metrics of a step only after it has dispatched the next one.
    """

    def __init__(
        self,
        program: Program,
        phases: list[Phase],
        config: Config,
        workdir: Any,
        peers: Any,
        words: WordPlan = UNCOUNTED,
        pairs: Program | None = None,
    ):
        self.program, self.phases, self.config = program, phases, config
        self.workdir, self.peers = epath.Path(workdir), peers
        self.words = words
        self.checkpoints = Checkpoints(workdir, keep=config.train.keep_checkpoints)
        self.checkpoints.kept_steps = set(words.steps.values())
        restored = self.checkpoints.restore(program.abstract_state)
        self.steps_done = restored.step if restored else 0
        self.seconds = self.tokens_scored = 0.0  # seconds: only those in steps
        digest = config_digest(config.values)
        self.origin = {
            "config": digest,
            "data": program.data.fingerprint,
            "constants": program.constants.origins,
        }
        if restored:
            facts, where = restored.facts, f"goes on from step {restored.step}"
            check_same_run(workdir, facts, self.origin)
            self.seconds, self.tokens_scored = facts["seconds"], facts["tokens_scored"]
            processes.print_from_process_0(f"{workdir}: {where}")
        self.state = restored.state if restored else first_state(program, config)
        self.writer = MetricWriter(
            workdir,
            step=self.steps_done,
            config=flatten(config.values),
            write_files=jax.process_index() == 0,
        )
        self.learning_rates = logged_rates(
            config.optimizer, config.train.steps, config.train.log_every
        )
        self.logged_step = self.saved_step = self.steps_done
        self.window_seconds = 0.0  # part of `seconds` since the last logged step
        self.clock = time.monotonic()  # when `seconds` was last updated
        self.note = ""  # shown next to the progress bar
        self.copy = jax.jit(lambda tree: jax.tree.map(jnp.copy, tree))
        self.is_finite = jax.jit(
            lambda tree: jnp.all(
                jnp.array([jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(tree)])
            )
        )
        self.evaluations = Evaluations(
            program,
            config,
            self.workdir,
            self.writer,
            self._stop_if_requested,
            pairs,
        )
        self.checkpoints.best = self.evaluations.best.step
        self.trace = StepTrace(
            config.train.profile_steps, self.writer.tensorboard_folder
        )

    def run(self) -> None:
        """Trains to the last step and closes all files."""
        num_steps = self.config.train.steps
        self._end_if_time_is_up()
        batches = steps_and_batches(self.phases, self.steps_done)
        try:
            if self.steps_done:
                self._check_finite()  # an evaluation may have saved such a state
            if self.steps_done and self._is_due(self.config.train.eval_every):
                lacks = self.evaluations.lacks(self.steps_done)
                if processes.broadcast_from_process_0(lacks):
                    self._evaluate()
            shown = progress("train", num_steps, silent=jax.process_index() > 0)
            with shown as report, jax.transfer_guard("disallow"):
                self.run_steps(num_steps, batches, report)
            if self.evaluations.best.step:
                self._evaluate_best()
        except BaseException as error:
            with contextlib.suppress(Exception):  # the first error is the one to raise
                self.close()
            if isinstance(error, KeyboardInterrupt):
                raise KeyboardInterrupt(self._what_is_saved()) from error
            raise
        finally:
            batches.close()
        self.close()

    def run_steps(
        self,
        stop: int,
        batches: Iterator[tuple[Any, Batch]],
        report: Callable[[int, str], None],
    ) -> None:
        """Trains to step `stop`, and logs, evaluates and saves when due.

        Args:
          batches: the compiled step and the batch of each remaining step.
          report: called as report(steps_done, note) after each step.
        """
        train, pending = self.config.train, None
        self.clock = time.monotonic()
        while (
            self.steps_done < min(stop, self.evaluations.last_step)
            and not self.evaluations.stop_early
        ):
            if self.peers.should_stop():
                self._log(*(pending or self._sums()), partial=not pending)
                self._stop()
            step, batch = next(batches)
            self.state = self.trace.call(self.steps_done + 1, step, self.state, batch)
            self.steps_done += 1
            if pending:
                self._log(*pending)
                pending = None
            report(self.steps_done, self.note)
            if self._is_due(train.log_every):
                pending = self.steps_done, self.copy(self.state.sums)
            evaluates = self._is_due(train.eval_every)
            saves = self._is_due(train.checkpoint_every)
            saves |= self.steps_done in self.checkpoints.kept_steps
            if evaluates or saves:
                self._log(*(pending or self._sums()), partial=not pending)
                pending = None
                is_last = self.steps_done == self.evaluations.last_step
                if saves or is_last:
                    self._save()
                if evaluates or is_last:
                    self._evaluate()
                self.clock = time.monotonic()
        if pending:
            self._log(*pending)

    def _sums(self) -> tuple[int, Any]:
        return self.steps_done, self.state.sums

    def _is_due(self, every: int) -> bool:
        """Whether an action that is done every N steps, and at the end, is due now."""
        is_last = self.steps_done == self.evaluations.last_step
        return is_last or (every > 0 and self.steps_done % every == 0)

    def _stop_if_requested(self) -> None:
        if self.peers.should_stop():
            self._stop()

    def _stop(self) -> NoReturn:
        if self.saved_step != self.steps_done:
            self._save()
        self.checkpoints.wait()
        raise PreemptedError(
            f"{self.workdir}: stopped after step {self.steps_done}, which is saved; "
            "the same command goes on from there"
        )

    def _what_is_saved(self) -> str:
        """Where the same command resumes, once the checkpoints are closed."""
        if not self.saved_step:
            return f"{self.workdir}: no step is saved; the same command begins anew"
        return f"{self.workdir}: the same command goes on from step {self.saved_step}"

    def close(self) -> None:
        """Waits for the checkpoint that is being saved and closes the files."""
        self.trace.close()
        self.checkpoints.close()
        self.writer.check_in_place()
        self.writer.close()

    def _log(self, step: int, sums: Any, *, partial: bool = False) -> None:
        """Reads a step's metrics and writes them.

        Args:
          partial: the step is within a window of train.log_every steps: its loss is
            checked, but nothing is written, unless train.minutes ends the run after it.
        """
        sums = jax.device_get(sums)
        means = host_means(sums)
        if not math.isfinite(means.get("loss", 0.0)):  # without it nothing was scored
            raise self._diverged(f"train/loss is {means['loss']} by step {step}")
        now = time.monotonic()
        self.seconds += now - self.clock
        self.window_seconds += now - self.clock
        self.clock = now
        if partial and step > self.logged_step:
            self._end_if_time_is_up()
        if partial and step < self.evaluations.last_step:
            return
        seen, before = (tokens_seen(self.phases, n) for n in (step, self.logged_step))
        tokens_per_second = (seen - before) / self.window_seconds
        self.logged_step, self.window_seconds = step, 0.0
        self.tokens_scored += num_scored(sums)
        line = {f"train/{name}": value for name, value in means.items()}
        line["learning_rate"] = self._learning_rate(step)
        line["tokens_seen"] = seen
        line["tokens_scored"] = self.tokens_scored
        if len(self.words.seen):
            line["words_seen"] = self.words.seen_by(step)
        self.writer.write(step, line)
        speed = {"seconds": self.seconds, "tokens_per_second": tokens_per_second}
        self.writer.write_speed(step, speed)
        self.checkpoints.check()
        rate = f"{tokens_per_second:,.0f} tokens/s"
        loss = f"loss {means['loss']:.4f}" if "loss" in means else "nothing scored"
        self.note = f"step {step}, {loss}, {rate}"
        self._end_if_time_is_up()

    def _learning_rate(self, step: int) -> float:
        """The rate that the update of a logged step had."""
        train = self.config.train
        number, inside = divmod(step, train.log_every)
        if inside and step < train.steps:  # the last step, since time is up
            with jax.transfer_guard("allow"):
                rates = logged_rates(self.config.optimizer, train.steps, step)
            return float(rates[0])
        return float(self.learning_rates[number - 1 if not inside else number])

    def _end_if_time_is_up(self) -> None:
        """Ends training after the last step if train.minutes is used up.

        Process 0 decides.
        """
        train, last_step = self.config.train, self.evaluations.last_step
        if not train.minutes or self.steps_done >= last_step:
            return
        if processes.broadcast_from_process_0(self.seconds >= 60 * train.minutes):
            self.evaluations.last_step = self.steps_done
            processes.print_from_process_0(
                f"{self.workdir}: {self.seconds / 60:.2f} minutes of steps are used, "
                f"train.minutes={train.minutes:g}: the run ends after step "
                f"{self.steps_done} of {train.steps}, at a learning rate of "
                f"{self._learning_rate(max(self.steps_done, 1)):.3g}"
            )

    def _evaluate(self) -> None:
        """Evaluates; saves the state if this is the best evaluation so far."""
        self.evaluations.run(self.state, self.steps_done)
        best = self.evaluations.best.step
        if best == self.steps_done != self.saved_step:
            self._save()
        self.checkpoints.best = best  # once it is saved, the previous one is deleted

    def _evaluate_best(self) -> None:
        """Ends the run by evaluating its best checkpoint.

        The last state is saved first, so that a run stopped here resumes from there.
        """
        if self.saved_step != self.steps_done:
            self._save()
        if not self._is_due(self.config.train.log_every):  # training stopped early
            self.tokens_scored += num_scored(jax.device_get(self.state.sums))
        if self.evaluations.best.step != self.steps_done:
            self.state = self.checkpoints.restore_best(self.program.abstract_state)
        self.evaluations.run_best(self.state, self.steps_done)

    def _diverged(self, what: str) -> NonFiniteError:
        return NonFiniteError(
            f"{self.workdir}: {what} (step {self.saved_step} is saved)"
        )

    def _check_finite(self) -> None:
        """Raises NonFiniteError if parameters of the state are not finite."""
        if not jax.device_get(self.is_finite(self.state.params)):
            step = self.steps_done
            raise self._diverged(f"parameters are not finite after step {step}")

    def _save(self) -> None:
        """Starts saving the state.

        Raises:
          NonFiniteError: its parameters are not finite.
          UserError: the workdir was moved or deleted.
        """
        self.writer.check_in_place()
        self._check_finite()
        facts = self.origin | {
            "vocabulary": self.program.data.vocabulary_hash,
            **label_facts(self.program),
            "seconds": self.seconds,
            "tokens_scored": self.tokens_scored,
        }
        self.writer.upload()
        self.checkpoints.save(self.steps_done, self.state, facts)
        self.saved_step = self.steps_done
