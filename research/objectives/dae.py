"""Denoising autoencoding by span corruption (T5, Raffel et al. 2020, section 3.1.4).

The encoder reads the text with a sentinel in place of each hidden span; the decoder
writes each sentinel and what it stands for.
"""

# B batch, R raw tokens, L encoder length, T decoder length, S spans of a row

import functools
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from research import models
from research.batch import (
    Example,
    Reads,
    Spec,
    Symbols,
    group_specs,
    scored_specs,
    take,
)
from research.data import noise
from research.errors import UserError
from research.objectives import layout
from research.objectives.losses import Term, recovery


@dataclass(frozen=True)
class Objective:
    """Fills the encoder; the decoder starts with pad, and both sides end with eos.

    A text starts in the clear and ends hidden, so each sentinel of the encoder has
    its span in the target, and no sentinel follows the last span.
    """

    rate: float = 0.15  # share of the text that is hidden
    span: float = 3.0  # mean length of a hidden span, in tokens
    cross_entropy: str = "fused"  # dense | chunked | fused

    pattern = "full"
    splits = True

    def __post_init__(self):
        if not 0 < self.rate < 1:
            raise ValueError(f"rate is between 0 and 1, not {self.rate}")
        if self.span < 1:
            raise ValueError(f"span is at least 1 token, not {self.span}")

    def reads(self, length: int) -> Reads:
        return Reads("stream", lengths(length, self.rate, self.span).raw)

    def arrays(self, length: int) -> dict[str, Spec]:
        target = lengths(length, self.rate, self.span).target
        return (
            group_specs(length, "encoder_")
            | group_specs(target, "decoder_")
            | scored_specs(target, gathered=False)
        )

    def corrupt(
        self, example: Example, key: np.ndarray, symbols: Symbols, length: int
    ) -> dict[str, np.ndarray]:
        """Hides spans of the text.

        Raises:
          UserError: there are fewer sentinels than a text of full length has spans.
        """
        full = lengths(length, self.rate, self.span)
        needed = int(counts(full.raw, self.rate, self.span).spans)
        if needed > len(symbols.sentinels):
            raise UserError(
                f"objective dae at length {length}, rate {self.rate}, span {self.span} "
                f"needs {needed} sentinels; data.sentinels: {len(symbols.sentinels)}"
            )
        token = example.token[:, : full.raw]
        runs = self._runs(key, np.minimum(example.length, full.raw), token.shape[1])
        spans = runs.run % 2 == 1
        encoder, encoder_length = _side(token, runs, spans, symbols, length)
        target, target_length = _side(token, runs, ~spans, symbols, full.target)
        weight = np.arange(full.target) < target_length[:, None]
        decoder = np.full_like(target, symbols.pad)
        decoder[:, 1:] = np.where(weight[:, 1:], target[:, :-1], symbols.pad)
        return (
            layout.full(encoder, encoder_length, "encoder_")
            | layout.causal(decoder, target_length, "decoder_")
            | {"target": target, "weight": weight.astype(np.float32)}
        )

    def network(self, options: Any, symbols: Symbols) -> Any:
        return models.EncoderDecoder(options, size=symbols.size)

    def loss(self, net: Any, batch: dict, key: Any) -> tuple[dict[str, Term], Any]:
        """Terms: dae, and accuracy (not differentiated)."""
        memory = net.encode(take(batch, "encoder_"))
        states = net.states(take(batch, "decoder_"), memory)
        readout = net.readout(states)
        return recovery("dae", readout, batch, self.cross_entropy), ()

    def _runs(self, key: np.ndarray, num_raw: np.ndarray, width: int) -> "Runs":
        """Cuts each text into clear runs and hidden ones, in turn."""
        num_raw = num_raw.astype(np.int64)
        hidden, spans = counts(num_raw, self.rate, self.span)
        clear_end = noise.compositions(key, "clear", num_raw - hidden, spans)
        span_end = noise.compositions(key, "hidden", hidden, spans)
        span_begin = np.pad(span_end, [(0, 0), (1, 0)])[:, :-1]
        held = np.arange(span_end.shape[1]) < spans[:, None]
        row = np.nonzero(held)[0]
        start = np.zeros((len(held), width + 1), bool)
        start[row, (clear_end + span_begin)[held]] = True
        start[row, (clear_end + span_end)[held]] = True
        run = np.cumsum(start[:, :-1], axis=1, dtype=np.int32)
        start[:, 0] = hidden > 0
        here = np.arange(width) < num_raw[:, None]
        return Runs(run, start[:, :-1] & here, here)


class Counts(NamedTuple):
    """Of a text of n tokens: how many are hidden, and in how many spans."""

    hidden: np.ndarray
    spans: np.ndarray


class Lengths(NamedTuple):
    """What an encoder of length L goes with."""

    raw: int  # tokens of text
    target: int  # the decoder's length


class Runs(NamedTuple):
    """Runs of a text, [B, R] each: run 2i is clear, run 2i + 1 is the span after it."""

    run: np.ndarray  # number of the run
    start: np.ndarray  # the first token of a run; nowhere in a text that hides nothing
    here: np.ndarray  # not padding


def counts(num_raw, rate: float, span: float) -> Counts:
    """For texts of `num_raw` tokens (any shape); half-way cases go to the even one.

    The only place where they are computed, so that a text always fits the lengths.
    A text of one token hides nothing.
    """
    num_raw = np.asarray(num_raw)
    hidden = np.maximum(np.rint(num_raw * rate).astype(np.int64), 1)
    hidden = np.minimum(hidden, np.maximum(num_raw - 1, 0))
    spans = np.maximum(np.rint(hidden / span).astype(np.int64), 1)
    return Counts(hidden, np.minimum(spans, np.minimum(hidden, num_raw - hidden)))


@functools.cache
def lengths(length: int, rate: float, span: float) -> Lengths:
    """The most text that fills an encoder of length L: (512, 0.15, 3) -> (568, 114).

    At rate 0.5 targets may come out longer than inputs; both then lose a token.
    """

    def sizes(num_raw):
        hidden, spans = counts(num_raw, rate, span)
        return num_raw - hidden + spans + 1, hidden + spans + 1

    num_raw = np.arange(1, int((length + 2) / (1 - rate)) + 2)
    raw = int(num_raw[sizes(num_raw)[0] <= length][-1])
    if rate == 0.5 and np.less(*sizes(raw)):
        raw -= 1
    return Lengths(raw, int(sizes(raw)[1]))


def _side(
    token: np.ndarray, runs: Runs, gone: np.ndarray, symbols: Symbols, width: int
) -> tuple[np.ndarray, np.ndarray]:
    """What is not `gone`, a sentinel for each run that is, and eos.

    Returns:
      token [B, width] int32, and the number of tokens of each row [B].
    """
    mark = runs.start & gone
    value = np.array(token, np.int32)
    value[mark] = np.array(symbols.sentinels, np.int32)[runs.run[mark] // 2]
    kept = (mark | ~gone) & runs.here
    count = kept.sum(axis=1)
    side = np.full((len(token), width), symbols.pad, np.int32)
    side[np.arange(width) < count[:, None]] = value[kept]
    held = np.flatnonzero(runs.here.any(axis=1))
    side[held, count[held]] = symbols.eos
    return side, np.where(runs.here.any(axis=1), count + 1, 0)
