"""One score for any objective: log p(text), from the rows that it makes of the text.

The score is minus the objective's own loss on the rows of its `score_rows`, so networks
and losses are those of training. A loss is linear in its weights, so its derivative
with respect to a weight is the loss of that position. Losses of positions are float32;
they are summed on the host in float64.
"""

# N rows, L length of a row

import collections
import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from research import networks, objectives
from research.contract.errors import UserError, unknown
from research.data.progress import MANY, progress
from research.distributed import sharding
from research.evaluation.score_windows import (
    Window,
    encode,
    make_windows,
    num_bytes,
    raw_text,
    row_batches,
)
from research.objectives.noise.scoring import ScoreRows
from research.program.constants import Constants

NUM_SPECIALS = 3
"""Positions of a row that are reserved for special tokens."""

MIN_LENGTH = 16
"""Rows have this length, doubled until the text fits, and at most data.length."""

BATCH_POSITIONS = 8192
"""Most tokens of a batch: rows times their length."""

WINDOWS_PER_CALL = 64
"""Number of windows whose rows are made at once, on the host."""


class Score(NamedTuple):
    """The score of a text, or of a text given its context."""

    log_prob: float  # nats; the objective's `score_methods` define it
    num_tokens: int  # of the text
    num_bytes: int  # of the text as it is read, see `score_windows.num_bytes`
    num_windows: int  # 1, unless the text is longer than a row
    all_best: bool | None  # whether all tokens were the most likely; None: not computed
    std_error: float = 0.0  # of log_prob, if it is estimated from draws; else 0

    @property
    def per_token(self) -> float:
        return self.log_prob / self.num_tokens

    @property
    def per_byte(self) -> float:
        return self.log_prob / self.num_bytes


class RowScorer:
    """Computes the losses of rows; compiles once per batch shape.

    Args:
      run: has network, params, vocabulary and mesh, such as a
        `research.run.restored.RestoredRun`.
      objective: its loss is computed, and its constants are read.
      best: whether to compute if all tokens scored in a row are the most likely.
    """

    def __init__(self, run: Any, objective: Any, *, best: bool = False):
        self.params, self._mesh = run.params, run.mesh
        self._score_batch = jax.jit(make_score_batch(objective, run.network, best=best))
        vocabulary = run.vocabulary
        self.constants = Constants(
            objective.constants(vocabulary.vocab), run.mesh, vocabulary.facts
        )

    def __call__(self, rows: Iterator[ScoreRows], length: int) -> Iterator[tuple]:
        """(rows, loss [n] float64, all_best [n]) of each batch of n rows.

        Args:
          length: of a row; a batch has as many rows as fit in BATCH_POSITIONS.
        """
        mesh, running = self._mesh, collections.deque()
        rows_sharding = sharding.batch_sharding(mesh)
        num_shards = mesh.shape["data"] * mesh.shape["fsdp"]
        size = max(1, BATCH_POSITIONS // length // num_shards) * num_shards
        with sharding.context(mesh):
            for own, arrays in row_batches(rows, size):
                batch = jax.device_put(arrays, rows_sharding)
                result = self._score_batch(self.params, batch, self.constants.arrays)
                running.append((own, arrays, result))
                if len(running) > 1:  # the host makes rows while the device computes
                    yield _collect(*running.popleft())
            while running:
                yield _collect(*running.popleft())


class Scorer:
    """Computes the scores of texts; compiles once per row length.

    Args:
      run: has config, objective, network, params, vocabulary and mesh, such as a
        `research.program.restored.RestoredRun`.
      method: one of the objective's `score_methods`; "": its first.
      best: whether to compute if all scored tokens are the most likely.

    Raises:
      UserError: the objective has no score, or not by this method.
    """

    def __init__(self, run: Any, method: str = "", *, best: bool = False):
        self.run, self.best = run, best
        self.method = check_method(run.objective, method)
        self.meaning = run.objective.score_methods[self.method]
        self._objective, self._own_method = run.objective.scored_part(self.method)
        self._rows = RowScorer(run, self._objective.for_scoring(), best=best)

    @property
    def constants(self) -> Constants:
        return self._rows.constants

    @property
    def params(self) -> Any:
        """The network's parameters; may be replaced by another checkpoint's."""
        return self._rows.params

    @params.setter
    def params(self, params: Any) -> None:
        self._rows.params = params

    def __call__(
        self,
        texts: Sequence[str],
        contexts: Sequence[str] | None = None,
        suffixes: Sequence[str] | None = None,
        *,
        separator: str = " ",
        draws: Sequence[str] | None = None,
        blank: bool = False,
    ) -> list[Score]:
        """The score of each text, or of each text given its context and its suffix.

        A text follows its context and is followed by its suffix after the separator,
        unless there is white space; whether a suffix is read is up to the method. A
        score does not depend on the other texts. A text that is longer than a row is
        read in windows of a row's length, and each of its tokens is scored once: see
        `make_windows`.

        Args:
          draws: for scores estimated from draws: texts of one length with the same
            string here share their draws; by default the texts themselves.
          blank: whether texts may be blank; their log p is 0.

        Raises:
          UserError: a text is blank.
        """
        none = [""] * len(texts)
        contexts = none if contexts is None else contexts
        suffixes = none if suffixes is None else suffixes
        draws = texts if draws is None else draws
        room, by_length = self.run.config.data.length - NUM_SPECIALS, {}
        num_windows = np.zeros(len(texts), np.int64)
        num_tokens = np.zeros(len(texts), np.int64)
        rows = zip(texts, contexts, suffixes, strict=True)
        for number, (text, context, suffix) in enumerate(rows):
            token, flags, scored = encode(
                self.run.vocabulary, text, context, separator, suffix
            )
            if not scored.any():
                if not blank:
                    raise UserError(f"text {number + 1} is blank: {text!r:.40}")
                continue
            num_tokens[number] = scored.sum()
            drawn = _hash(draws[number])
            for begin, end, first in make_windows(scored, room):
                own = scored[begin:end] & (np.arange(begin, end) >= first)
                span = token[begin:end], flags[begin:end]
                window = Window(number, *span, own, drawn, int(num_windows[number]))
                by_length.setdefault(self._row_length(end - begin), []).append(window)
                num_windows[number] += 1
        log_prob, right = np.zeros(len(texts)), np.ones(len(texts), bool)
        replicates = np.zeros((len(texts), 0))
        total, done = int(num_windows.sum()), 0
        with progress("scores", total, silent=total < MANY) as report:

            def show(num_made: int) -> None:
                report(done + num_made, f"{done + num_made} of {total} windows")

            for length, windows in sorted(by_length.items()):
                made = self._make_rows(windows, length, show)
                for rows, loss, all_best in self._rows(made, length):
                    np.subtract.at(log_prob, rows.text, loss)
                    np.logical_and.at(right, rows.text, all_best)
                    if rows.replicate is not None:
                        missing = 1 + rows.replicate.max() - replicates.shape[1]
                        replicates = np.pad(replicates, ((0, 0), (0, max(0, missing))))
                        np.add.at(replicates, (rows.text, rows.replicate), loss)
                done += len(windows)
        count = replicates.shape[1]  # each adds an equal part of the score
        errors = np.sqrt(count) * replicates.std(axis=1, ddof=1) if count > 1 else None
        return [
            Score(
                float(log_prob[number]),
                int(num_tokens[number]),
                num_bytes(self.run.vocabulary, text),
                int(num_windows[number]),
                bool(right[number]) if self.best else None,
                0.0 if errors is None else float(errors[number]),
            )
            for number, text in enumerate(texts)
        ]

    def _row_length(self, num_tokens: int) -> int:
        """The length of a window's row, which depends only on the window."""
        length = MIN_LENGTH
        while length < num_tokens + NUM_SPECIALS:
            length *= 2
        return min(length, self.run.config.data.length)

    def _make_rows(
        self, windows: Sequence[Window], length: int, show: Callable[[int], None]
    ) -> Iterator[ScoreRows]:
        """The rows of the windows, some windows at a time, whose number is shown."""
        vocab = self.run.vocabulary.vocab
        for start in range(0, len(windows), WINDOWS_PER_CALL):
            show(start)
            some = windows[start : start + WINDOWS_PER_CALL]
            example, scored = raw_text(some, vocab.pad_id, length)
            rows = self._objective.score_rows(
                example, scored, vocab, length, self._own_method
            )
            text = np.array([window.text for window in some])[rows.text]
            yield rows._replace(text=text)


def _hash(text: str) -> int:
    """A 56-bit hash."""
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "replace")).digest()[:7])


def score(
    run: Any,
    texts: Sequence[str],
    contexts: Sequence[str] | None = None,
    suffixes: Sequence[str] | None = None,
    *,
    method: str = "",
) -> list[Score]:
    """The scores of texts; use `Scorer` to score repeatedly without recompiling."""
    return Scorer(run, method)(texts, contexts, suffixes)


def check_method(objective: Any, method: str) -> str:
    """The name of the method, by default the objective's first.

    Raises:
      UserError: the objective gives no score, or not by this method.
    """
    methods, name = objective.score_methods, objective.name
    if not methods:
        able = [
            each
            for each in objectives.names()
            if objectives.make_objective(each).score_methods
        ]
        raise UserError(
            f"objective {name} gives texts no score; these do: {', '.join(able)}"
        )
    if method and method not in methods:
        raise unknown(f"method of scoring of objective {name}", method, methods)
    return method or next(iter(methods))


def make_score_batch(objective: Any, network: Any, *, best: bool) -> Any:
    """The function that computes the losses of all weights, by name.

    Its arguments are (params, batch, constants). If `best`, it also returns the weight
    of what is right in each row [N], else None.
    """

    def terms_of(params: Any, batch: dict) -> dict:
        def loss(net):
            return objective.loss(net, batch | {"carry": None}, jax.random.key(0))[0]

        return networks.apply(network, params, loss)

    def score_batch(params: Any, batch: dict, constants: dict) -> tuple[dict, Any]:
        weights = {name: batch[name] for name in batch if name.endswith("weight")}

        def total(weights: dict) -> jax.Array:
            terms = terms_of(params, batch | weights | constants).values()
            return sum(term.total for term in terms if term.coef)

        def right(row: dict) -> jax.Array:
            terms = terms_of(params, jax.tree.map(lambda x: x[None], row) | constants)
            return sum(
                term.total for name, term in terms.items() if name.endswith("accuracy")
            )

        return jax.grad(total)(weights), jax.vmap(right)(batch) if best else None

    return score_batch


def _collect(rows: ScoreRows, arrays: dict, result: tuple) -> tuple:
    """A batch's rows without empty ones, their losses, and whether all are right."""
    losses, right = jax.device_get(result)
    loss = sum(
        (array.astype(np.float64) * arrays[name]).sum(axis=1)
        for name, array in losses.items()
    )
    count = sum(arrays[name].sum(axis=1) for name in losses)
    all_best = np.ones(len(loss), bool) if right is None else right > count - 1e-3
    return rows, loss[: len(rows.text)], all_best[: len(rows.text)]
