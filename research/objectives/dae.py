"""Denoising autoencoding with two sides (T5, Raffel et al. 2020, section 3.3).

The encoder reads a corrupted text; the decoder writes what was hidden, or the text.
"""

# B batch, R raw tokens, L encoder length, T decoder length

import functools
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from research import models
from research.batch import ArraySpec, Example, TextSpec, VocabInfo
from research.errors import UserError
from research.objectives.corruption import spans
from research.objectives.corruption.spans import counts
from research.objectives.inputs import seq2seq
from research.objectives.losses.cross_entropy import Term

CHOOSE = ("spans", "iid", "prefix", "all")
FILL = ("sentinel", "mask", "bert", "drop", "shuffle")
TARGET = ("spans", "whole")
MODES = ("", "R", "S", "X")
"""Of UL2's denoisers; mode n is spelled by the n-th sentinel from the last."""

IN_PLACE = ("mask", "bert", "shuffle")
"""Fills that keep every place, and so leave special tokens of the text as they are."""

RANDOM = 0.1
"""Share of random tokens of the fill "bert" (T5: 10 %, the others are masks)."""


@dataclass(frozen=True)
class Objective:
    """Fills the encoder; the decoder starts with pad, and both sides end with eos.

    choose: spans (of T5: a text starts in the clear and ends hidden), iid (each token
      by itself, neighbours make a span), prefix (the rest after a first part, of
      uniform length with mean `rate`), all.
    fill: what the encoder reads for it: a sentinel for each span, mask (each token),
      bert (90 % masks, 10 % random tokens), drop (nothing), shuffle (the same tokens
      in random order).
    target: spans (what is hidden; where the fill is sentinel, one for each clear run
      as well) or whole (the text).

    T5's rows are: (iid, bert, whole) BERT-style, (iid, mask, whole) MASS-style, (iid or
    spans, sentinel, spans), (iid, drop, spans), (all, shuffle, whole) deshuffling,
    (prefix, drop, spans) at rate 0.5 prefix language modelling. Sentinels count clear
    and hidden runs apart: a text that starts hidden writes its first span before any
    sentinel, one that ends clear writes a last sentinel with nothing after it.
    """

    rate: float = 0.15  # share of the text that is hidden
    span: float = 3.0  # mean length of a hidden span, in tokens (spans)
    choose: str = "spans"  # spans | iid | prefix | all
    fill: str = "sentinel"  # sentinel | mask | bert | drop | shuffle
    target: str = "spans"  # spans | whole
    mode: str = ""  # "" | R | S | X: a token before the encoder's text (UL2)
    z: float = 0.0  # factor of log(Z)^2 in the loss (T5's code: 1e-4)

    family = "DAE"
    pattern = "full"
    supports_accumulation = True

    def __post_init__(self):
        legal = {"choose": CHOOSE, "fill": FILL, "target": TARGET, "mode": MODES}
        for name, values in legal.items():
            if getattr(self, name) not in values:
                raise ValueError(
                    f"{name} is one of {', '.join(filter(None, values))}, "
                    f"not {getattr(self, name)!r}"
                )
        if not 0 < self.rate < 1:
            raise ValueError(f"rate is between 0 and 1, not {self.rate}")
        if self.z < 0:
            raise ValueError(f"z is at least 0, not {self.z}")
        if self.span < 1:
            raise ValueError(f"span is at least 1 token, not {self.span}")
        if self.choose == "prefix" and self.rate > 0.5:
            raise ValueError(
                f"rate is at most 0.5 where choose is prefix, not {self.rate}"
            )
        if self.choose == "all" and self.fill != "shuffle":
            raise ValueError("choose is all only where fill is shuffle")
        if self.fill == "shuffle" and self.target != "whole":
            raise ValueError("target is whole where fill is shuffle")

    def lengths(self, length: int) -> "Lengths":
        """Raw tokens and decoder length that go with an encoder of `length`."""
        length -= bool(self.mode)
        if self.choose == "spans":
            return lengths(length, self.rate, self.span, self.fill, self.target)
        raw, mark = length - 1, int(self.fill == "sentinel")
        if self.target == "whole":
            return Lengths(raw, raw + 1)
        if self.choose == "iid":
            room = spans.most(raw, self.rate)
            return Lengths(raw, room.hidden + mark * (room.spans + 1) + 1)
        return Lengths(raw, int(spans.longest_rest(raw, self.rate)) + mark + 1)

    def sentinels(self, length: int) -> int:
        """How many sentinels it needs."""
        raw, modes = self.lengths(length).raw, bool(self.mode) * (len(MODES) - 1)
        if self.fill != "sentinel":
            return modes
        if self.choose == "spans":
            return modes + int(counts(raw, self.rate, self.span).spans)
        if self.choose == "iid":
            return modes + spans.most(raw, self.rate).spans + 1
        return modes + 1

    def text_spec(self, length: int) -> TextSpec:
        return TextSpec("stream", self.lengths(length).raw)

    def batch_spec(self, length: int) -> dict[str, ArraySpec]:
        return seq2seq.specs(length, self.lengths(length).target)

    def corrupt(
        self, example: Example, key: np.ndarray, vocab: VocabInfo, length: int
    ) -> dict[str, np.ndarray]:
        """Hides part of the text.

        Raises:
          UserError: there are fewer sentinels than a text of full length may need.
        """
        full, needed = self.lengths(length), self.sentinels(length)
        if needed > len(vocab.sentinel_ids):
            raise UserError(
                f"objective dae at length {length}, rate {self.rate}, span {self.span} "
                f"needs {needed} sentinels; data.sentinels: {len(vocab.sentinel_ids)}"
            )
        token = example.token[:, : full.raw]
        num_raw = np.minimum(example.length, full.raw)
        here = np.arange(token.shape[1]) < num_raw[:, None]
        hidden = self._hidden(key, num_raw, token.shape[1], full.raw)
        if self.fill in IN_PLACE:
            hidden &= ~vocab.is_special[token]
        runs = spans.runs(hidden, here)
        mode = vocab.sentinel_ids[-MODES.index(self.mode)] if self.mode else None
        read, kept = self._read(token, hidden, runs, key, vocab)
        some = num_raw > 0
        encoder = seq2seq.pack(read, kept & here, some, vocab, length, mode)
        written, kept = self._written(token, hidden, runs, vocab)
        target = seq2seq.pack(written, kept & here, some, vocab, full.target)
        return seq2seq.batch(encoder, target, vocab, vocab.pad_id)

    def network(self, options: Any, vocab: VocabInfo) -> Any:
        return models.EncoderDecoder(options, size=vocab.size)

    def loss(self, net: Any, batch: dict, key: Any) -> tuple[dict[str, Term], Any]:
        """Terms: dae, and accuracy (not differentiated)."""
        return seq2seq.recovered("dae", net, batch, self.z), ()

    def _hidden(self, key, num_raw, width, full) -> np.ndarray:
        """[B, R] bool: what is hidden; `full`: raw tokens of the longest text."""
        if self.choose == "spans":
            return spans.of_mean(key, num_raw, width, self.rate, self.span)
        if self.choose == "prefix":
            return spans.rest(key, num_raw, width, self.rate)
        if self.choose == "iid":
            room = spans.most(full, self.rate)
            return spans.independent(key, num_raw, width, self.rate, room)
        return np.arange(width) < num_raw[:, None]

    def _read(self, token, hidden, runs, key, vocab):
        """What the encoder may read, and where [B, R] it does."""
        if self.fill == "sentinel":
            return _marked(token, ~hidden, runs, vocab)
        if self.fill == "drop":
            return token, ~hidden
        if self.fill == "shuffle":
            return spans.shuffled(token, hidden, key), np.ones_like(hidden)
        random = RANDOM if self.fill == "bert" else 0.0
        mask = 1 - random
        value = spans.replaced(token, hidden, key, vocab, mask=mask, random=random)
        return value, np.ones_like(hidden)

    def _written(self, token, hidden, runs, vocab):
        """What the decoder may write, and where [B, R] it does."""
        if self.target == "whole":
            return token, np.ones_like(hidden)
        if self.fill == "sentinel":
            return _marked(token, hidden, runs, vocab)
        return token, hidden


class Lengths(NamedTuple):
    """What an encoder of length L goes with."""

    raw: int  # tokens of text
    target: int  # the decoder's length


@functools.cache
def lengths(
    length: int, rate: float, span: float, fill="sentinel", target="spans"
) -> Lengths:
    """The most text that fills an encoder of length L: (512, 0.15, 3) -> (568, 114).

    At rate 0.5 targets may come out longer than inputs; both then lose a token.
    """

    def sizes(num_raw):
        hidden, marks = counts(num_raw, rate, span)
        left = {"sentinel": marks, "drop": 0}.get(fill, hidden)
        written = hidden + (marks if fill == "sentinel" else 0)
        whole = target == "whole"
        return num_raw - hidden + left + 1, (num_raw if whole else written) + 1

    num_raw = np.arange(1, int((length + 2) / (1 - rate)) + 2)
    raw = int(num_raw[sizes(num_raw)[0] <= length][-1])
    if (rate, fill, target) == (0.5, "sentinel", "spans") and np.less(*sizes(raw)):
        raw -= 1
    return Lengths(raw, int(sizes(raw)[1]))


def _marked(token, kept, runs, vocab) -> tuple[np.ndarray, np.ndarray]:
    """Tokens [B, R] and which of them stay: a sentinel for each run that is not kept.

    Each sort of run counts its sentinels from the first.
    """
    mark = runs.start & ~kept
    value = np.array(token, np.int32)
    value[mark] = np.array(vocab.sentinel_ids, np.int32)[runs.run[mark] // 2]
    return value, mark | kept
