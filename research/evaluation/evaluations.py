"""The evaluations of a run: on its evaluation split, and at its end on data.test."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import jax
from etils import epath

from research.config.config import Config
from research.contract.errors import NonFiniteError, UserError
from research.contract.state import State
from research.data.documents import single_labels
from research.data.source.build import with_test_split
from research.distributed import processes
from research.evaluation.best_evaluation import BestEvaluation, find_best
from research.evaluation.evaluate import NOTHING_SCORED, evaluate
from research.evaluation.prediction_files import write_predictions
from research.evaluation.rated_pairs import correlations
from research.metrics import Item, Scores, ranges, values_of
from research.optimize.moving_average import exchange_average
from research.predictions import prediction_kind
from research.program.setup import Program, make_eval_zeros, open_run_data
from research.record.metric_writer import BEST_STEP, MetricWriter

NUM_SAMPLES = 8
"""Number of predictions of an evaluation that are shown with the metrics."""


class Evaluations:
    """Evaluates a run's parameters, or their moving average if one is kept.

    The test split is that of data.test or data.split, if one of them names it and the
    objective predicts: so a sweep can select by one split and report another.

    The predictions of the run's final state are written to predictions/SPLIT.jsonl in
    its workdir.

    Args:
      workdir: of the run.
      writer: writes the metrics, and has those of the evaluations so far.
      before_batch: called before each batch, equally often in all processes.
      pairs: the program of `rated_pairs.rated_program`; each evaluation includes its
        correlations.

    Attributes:
      best: the best evaluation so far, by train.best_metric.
      item_scores: split -> the scores of its single items.
      margins: half widths of the last metrics' intervals over items.
      notes: how metrics were measured, if that depends on the text.
      ranges: of metrics, see `metrics.ranges`.
      origin: where the test split comes from, for the provenance.
      last_step: the step that the run ends with.
    """

    def __init__(
        self,
        program: Program,
        config: Config,
        workdir: epath.Path,
        writer: MetricWriter,
        before_batch: Callable[[], None],
        pairs: Program | None = None,
    ):
        self._config, self._workdir = config, workdir
        self._writer, self._before_batch = writer, before_batch
        self._programs = {config.data.eval_split: program}
        self._zeros = make_eval_zeros(program)
        self._pairs = pairs
        self.best = self._find_best()
        self.item_scores: dict[str, list[float]] = {}
        self.margins: dict[str, float] = {}
        self.notes: dict[str, str] = {}
        self.ranges: dict[str, tuple[float, float]] = {}
        self.origin: dict[str, str] = {}
        self.last_step: int = config.train.steps
        self._predictions: dict[str, list[Item]] = {}  # to be written in process 0
        self._samples: dict[str, list[Item]] = {}  # of each split the first items
        self._predicts = bool(program.objective.predicts or pairs)
        self._values = values_of(program.objective.predicts)
        if (tested := with_test_split(config.data, program.objective)) is not None:
            tested_config = dataclasses.replace(config, data=tested)
            self._programs["test"] = _with_test_split(program, tested_config)
            data = self._programs["test"].data
            self.origin = {"test_data": data.fingerprint}
        if pairs:
            self.origin["rated_pairs"] = pairs.data.fingerprint

    def lacks(self, step: int) -> bool:
        """Whether a restored step still has to be evaluated.

        Either the run was stopped after saving the step and before evaluating it, or
        the result needs the scores of single items, which are in no file.
        """
        if self._predicts and self._is_last(step):
            return True
        name = f"{self._config.data.eval_split}/loss"
        lines = (line for line in self._writer.lines if line["step"] == step)
        return not any(name in line for line in lines)

    def run(self, state: State, step: int) -> None:
        """Writes the metrics of the state after a step.

        Raises:
          NonFiniteError: a loss is not finite; nothing is written.
          UserError: train.best_metric is set, but the evaluations scored nothing.
        """
        self._write(step, self._metrics(state, last=self._is_last(step)))
        self.best = self._find_best()
        if self._config.train.best_metric and not self.best.step:
            split = self._config.data.eval_split
            raise UserError(
                f"train.best_metric is {self._config.train.best_metric}, but nothing "
                f"of the split {split} is scored: it has no labels, or none that the "
                "objective scores"
            )

    def run_best(self, state: State, step: int) -> None:
        """Writes the metrics after the best step, at the end of the run."""
        name, best = self._config.train.best_metric, self.best.step
        processes.print_from_process_0(f"{name} is best after step {best} of {step}")
        metrics = self._metrics(state, last=True)
        self._write(step, metrics | {BEST_STEP: best})

    def _write(self, step: int, metrics: dict[str, float]) -> None:
        for name, value in metrics.items():
            if name.endswith("/loss") and not math.isfinite(value):
                raise NonFiniteError(f"{name} is {value} after step {step}")
        self._writer.write(step, metrics)
        for split, items in self._predictions.items():
            write_predictions(self._workdir / "predictions" / f"{split}.jsonl", items)
        self._predictions = {}
        for split, items in self._samples.items():
            self._writer.write_samples(step, f"{split}/predictions", items)
        self._samples = {}

    @property
    def stop_early(self) -> bool:
        """Whether the evaluations so far end training, by train.early_stopping_rule."""
        train = self._config.train
        if train.early_stopping_rule == "nonmonotonic":
            return self.best.is_nonmonotonic
        return 0 < train.early_stopping_patience <= self.best.num_later

    def _find_best(self) -> BestEvaluation:
        if not self._config.train.best_metric:
            return BestEvaluation()
        return find_best(self._writer.lines, self._config)

    def _is_last(self, step: int) -> bool:
        """Whether the state after this step is the run's final one."""
        return step == self.last_step and not self._config.train.best_metric

    def _metrics(self, state: State, *, last: bool) -> dict[str, float]:
        """Metrics by name, such as "valid/loss".

        Args:
          last: whether this is the final state: the test split is evaluated, too.
        """
        found = []
        for split, program in self._programs.items():
            if split == "test" and len(self._programs) > 1 and not last:
                continue
            scores = self._evaluate(program, state, self._zeros(), last=last)
            found.append((split, program, scores))
            if "loss" not in scores.metrics:
                processes.print_from_process_0(NOTHING_SCORED.format(split))
            if scores.items:
                known = [item.score for item in scores.items if item.score is not None]
                self.item_scores[split] = known
                self._samples[split] = scores.items[:NUM_SAMPLES]
                if last and jax.process_index() == 0:
                    self._predictions[split] = scores.items
        if self._pairs:
            scores = self._evaluate(self._pairs, state, ({}, ()), last=last)
            split = self._config.data.eval_split
            found.append((split, self._pairs, correlations(scores)))
        metrics: dict[str, float] = {}
        for split, program, scores in found:
            named = {f"{split}/{name}": v for name, v in scores.metrics.items()}
            metrics |= named
            self.ranges |= ranges(named, program.objective.predicts)
            self.margins |= {f"{split}/{name}": v for name, v in scores.margins.items()}
            self.notes |= {f"{split}/{name}": v for name, v in scores.notes.items()}
        return metrics

    def _evaluate(
        self, program: Program, state: State, zeros: tuple[Any, Any], *, last: bool
    ) -> Scores:
        of_predictions = self._config.train.best_metric in self._values
        return evaluate(
            program,
            exchange_average(state).params,
            zeros,
            self._before_batch,
            writes_texts=last or of_predictions,
            with_margins=last,
        )


def _with_test_split(program: Program, tested: Config) -> Program:
    """The program with the data of a `with_test_split`.

    Raises:
      UserError: it has labels that the other splits do not have.
    """
    data = open_run_data(tested)
    labels, known = data.vocab.labels, program.data.vocab.labels
    may_differ = prediction_kind(program.objective.predicts).open_labels
    if not may_differ and single_labels(labels) != single_labels(known):
        raise UserError(
            f"data.test has other labels ({', '.join(labels)}) than the training and "
            f"evaluation text ({', '.join(known)})"
        )
    if data.evaluation_note:
        processes.print_from_process_0(data.evaluation_note)
    return program._replace(data=data)
