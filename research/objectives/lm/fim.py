"""Fill in the middle: a causal model that also reads what comes after (Bavarian 2022).

A text is cut at two uniform positions and read as prefix, suffix, middle (PSM), each
preceded by its own sentinel, the first of which replaces bos at the start of a row; or
as first sentinel, second sentinel, suffix, third sentinel, prefix and middle (SPM, in
the variant that shares its sentinels with PSM). All three parts are scored, the
sentinels are not; a separator at the end of the text ends the last part
(sections 3 and 4.2; bigcode-project/Megatron-LM, megatron/data/gpt_dataset.py).
"""

# B batch, L length, R raw tokens an example

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import numpy as np

from research import networks, objectives
from research.contract.batch import WORD, ArraySpec, Batch, Example, Pieces, VocabInfo
from research.contract.errors import UserError
from research.contract.fields import choice, fraction
from research.contract.scores import LIKELIHOOD
from research.data import counter_rng
from research.data.rows import TextSpec
from research.objectives.layout import input_format
from research.objectives.layout.prompt import Prompt, pad_rows
from research.objectives.lm import lm
from research.objectives.losses.cross_entropy import Term, masked_cross_entropy
from research.objectives.noise.scoring import ScoreRows

NUM_SENTINELS = 3
"""The first sentinels precede prefix, suffix and middle."""

INFILL = "infill"
"""The score of a text, or the scored part of it, as the middle of what is read."""


@dataclass(frozen=True)
class Objective(objectives.Objective):
    """Reads L - 2 tokens; texts that are not rearranged are scored as `lm` does.

    A row has at most two tokens more than its text; the rest is truncated.
    """

    rate: float = fraction(0.5)  # fraction of texts whose middle comes last
    spm_rate: float = fraction(0.0)  # fraction of these in which the suffix comes first
    # (Bavarian et al. 2022: 0.5)
    cut: str = choice("token", ("token", "character"))  # texts are cut between tokens,
    # or between characters: the two parts of a cut word are tokenized separately
    text_unit: str = choice("row", ("row", "document"))  # what is cut: all text of a
    # row, or each document in it separately ("context level", section 4.3)

    pattern = "causal"
    reads_separators = True
    token_terms = ("fim",)
    score_methods: ClassVar = lm.Objective.score_methods | {INFILL: LIKELIHOOD}
    fills_one_mask = True
    min_length = 3  # three sentinels, by which a token is the target of the third

    def text_spec(self, length: int) -> TextSpec:
        return TextSpec("stream", length - NUM_SENTINELS + 1)

    def batch_spec(self, length: int) -> dict[str, ArraySpec]:
        return lm.Objective().batch_spec(length)

    def corrupt(
        self, example: Example, key: np.ndarray, vocab: VocabInfo, length: int
    ) -> dict[str, np.ndarray]:
        """Moves the middle to the end, then shifts the input as `lm` does."""
        rows = zip(example.token, example.length, strict=True)
        texts = [self._texts(*row, vocab) for row in rows]
        most = max(map(len, texts), default=0)
        cuts = counter_rng.uniform(key, "cuts", 2 * most).reshape(len(key), most, 2)
        moved = counter_rng.uniform(key, "moved", most) < self.rate
        suffix_first = counter_rng.uniform(key, "order", most) < self.spm_rate
        rearranged = []
        for row, ranges in enumerate(texts):
            read, done = example.token[row], 0
            parts: list[np.ndarray] = []
            for number, (begin, end) in enumerate(ranges):
                parts.append(read[done:begin])
                done = end
                if not moved[row, number]:
                    parts.append(read[begin:end])
                    continue
                starts_word = example.flags[row, begin:end] & WORD > 0
                prefix, middle, suffix = self._cut(
                    read[begin:end], starts_word, cuts[row, number], vocab
                )
                first, *others = _rearranged(
                    prefix,
                    middle,
                    suffix,
                    vocab,
                    suffix_first=suffix_first[row, number],
                )
                if begin:  # else the first sentinel takes the place of bos
                    parts.append(first)
                parts += others
            parts.append(read[done : example.length[row]])
            most_read = min(example.length[row] + 2, length)
            rearranged.append(np.concatenate(parts)[:most_read])
        begins_moved = [
            bool(ranges and ranges[0][0] == 0 and moved[row, 0])
            for row, ranges in enumerate(texts)
        ]
        return _batch(example, rearranged, begins_moved, vocab, length)

    def _texts(
        self, token: np.ndarray, length: int, vocab: VocabInfo
    ) -> list[tuple[int, int]]:
        """(begin, end) of the texts of a row [R] that may be cut; none is empty."""
        ends = [*np.flatnonzero(token[:length] == vocab.eos_id)]
        if self.text_unit == "row":
            ends = ends[-1:] if ends and ends[-1] == length - 1 else []
            return [(0, each) for each in [*ends, length][:1] if each]
        begins = [0, *(end + 1 for end in ends)]
        pairs = zip(begins, [*ends, length], strict=True)
        return [(begin, end) for begin, end in pairs if begin < end]

    def _cut(
        self,
        token: np.ndarray,
        starts_word: np.ndarray,
        draws: np.ndarray,
        vocab: VocabInfo,
    ) -> list[np.ndarray]:
        """Prefix, middle and suffix of a text [T], cut at two draws from [0, 1).

        Raises:
          UserError: it is cut between characters, which this vocabulary does not know.
        """
        if self.cut == "token":
            at = np.sort((draws * (len(token) + 1)).astype(np.int64))
            return np.split(token, at)
        if vocab.pieces is None:
            raise UserError(
                "objective.cut=character needs a vocabulary of pieces of words that "
                "encodes text; set data.vocabulary to a type that has these, or "
                "objective.cut=token"
            )
        return _cut_characters(token, starts_word, draws, vocab.pieces)

    def score_rows(
        self,
        example: Example,
        scored: np.ndarray,
        vocab: VocabInfo,
        length: int,
        method: str,
    ) -> ScoreRows:
        """One row per text: as `lm` reads it, or its scored tokens last ("infill").

        What is before and after the scored tokens is then read first, in the order of
        `spm_rate`.
        """
        if method != INFILL:
            return lm.Objective().score_rows(example, scored, vocab, length, method)
        rows, weight = [], np.zeros((len(scored), length), np.float32)
        for number, is_scored in enumerate(scored):
            own = np.flatnonzero(is_scored)
            first, end = own[0], own[-1] + 1
            text = example.token[number, : example.length[number]]
            prefix, middle, suffix = np.split(text, [first, end])
            rows.append(self._around(prefix, middle, suffix, vocab)[1:])
            size = len(rows[-1])
            weight[number, size - (end - first) : size] = is_scored[first:end]
        batch = _batch(example, rows, [True] * len(rows), vocab, length)
        batch["weight"] *= weight
        return ScoreRows(np.arange(len(rows)), batch)

    def prompt(self, texts: Sequence[Sequence[int]], vocab: VocabInfo) -> Prompt:
        """Texts as `lm` reads them; the parts around a mask, with the middle to follow.

        Raises:
          UserError: a text has more than one mask.
        """
        rows = []
        for text in texts:
            row = np.asarray(text, np.int64)
            masks = np.flatnonzero(row == vocab.mask_id)
            if len(masks) > 1:
                raise UserError(
                    f"objective fim fills one mask of a prompt, not {len(masks)}"
                )
            if len(masks):
                prefix, suffix = np.split(row, masks)
                row = self._around(prefix, row[:0], suffix[1:], vocab)
            else:
                row = np.append(vocab.bos_id, row)
            rows.append(row.tolist())
        return Prompt(input_format.causal_input(*pad_rows(rows, vocab.pad_id)))

    def _around(
        self,
        prefix: np.ndarray,
        middle: np.ndarray,
        suffix: np.ndarray,
        vocab: VocabInfo,
    ) -> np.ndarray:
        """The row of a text that is filled in: its suffix is first if it always was."""
        suffix_first = self.spm_rate == 1
        parts = _rearranged(prefix, middle, suffix, vocab, suffix_first=suffix_first)
        return np.concatenate(parts)

    def num_sentinels(self, length: int) -> int:
        return NUM_SENTINELS

    def needs(self, vocab: VocabInfo) -> networks.Needs:
        """Raises UserError: the vocabulary has fewer than three sentinels."""
        if len(vocab.sentinel_ids) < NUM_SENTINELS:
            raise UserError(
                f"objective.name=fim needs data.sentinels of at least {NUM_SENTINELS}, "
                f"not {len(vocab.sentinel_ids)}"
            )
        return super().needs(vocab)

    def loss(
        self, net: networks.BoundNetwork, batch: Batch, key: jax.Array
    ) -> tuple[dict[str, Term], Any]:
        """Terms: fim, and accuracy (not differentiated)."""
        readout = net.readout(net.states(batch))
        return masked_cross_entropy("fim", readout, batch), ()


def _batch(
    example: Example,
    rows: Sequence[np.ndarray],
    begins_moved: Sequence[bool],
    vocab: VocabInfo,
    length: int,
) -> dict[str, np.ndarray]:
    """The arrays of rows of tokens; sentinels have no weight.

    Args:
      begins_moved: whether a row's first text is rearranged: its first sentinel, which
        the row does not have, takes the place of bos.
    """
    token = np.full((len(rows), length), vocab.pad_id, np.int32)
    for array, row in zip(token, rows, strict=True):
        array[: len(row)] = row
    size = np.array([len(row) for row in rows], np.int32)
    flags = np.zeros(token.shape, np.uint8)
    text = example._replace(token=token, flags=flags, length=size)
    key = np.zeros(len(rows), np.uint64)  # nothing is drawn
    batch = lm.Objective().corrupt(text, key, vocab, length)
    sentinels = vocab.sentinel_ids[:NUM_SENTINELS]
    batch["token"][np.flatnonzero(begins_moved), 0] = sentinels[0]
    is_text = ~np.isin(batch["target"], sentinels)
    return batch | {"weight": batch["weight"] * is_text}


def _rearranged(
    prefix: np.ndarray,
    middle: np.ndarray,
    suffix: np.ndarray,
    vocab: VocabInfo,
    *,
    suffix_first: bool,
) -> list[np.ndarray]:
    """The six parts of a rearranged text, including sentinels, in order."""
    first, second, third = np.array(vocab.sentinel_ids[:NUM_SENTINELS])[:, None]
    if suffix_first:
        return [first, second, suffix, third, prefix, middle]
    return [first, prefix, second, suffix, third, middle]


def _cut_characters(
    token: np.ndarray, starts_word: np.ndarray, draws: np.ndarray, pieces: Pieces
) -> list[np.ndarray]:
    """Prefix, middle and suffix [.] of a text [T], cut between its characters.

    The parts of a cut word are tokenized separately. If a word is not valid text, since
    a row begins or ends inside a character, the cut is before it.
    """
    text = [pieces.text[each] for each in token]
    data, offset = b"".join(text), np.cumsum([0, *map(len, text)])
    starts = np.append(starts_word, True)
    starts[0] = True
    word = np.flatnonzero(starts)  # tokens that begin words, and T
    word_byte = offset[word]
    is_character = np.frombuffer(data, np.uint8) & 0xC0 != 0x80
    characters = np.append(np.flatnonzero(is_character), len(data))
    cuts = [(0, 0)]  # number of the last word that begins before it, and bytes before
    for at in np.sort(characters[(draws * len(characters)).astype(np.int64)]):
        number = int(np.searchsorted(word_byte, at, "right")) - 1
        whole = data[word_byte[number] : word_byte[min(number + 1, len(word) - 1)]]
        cuts.append((number, at if _is_text(whole) else word_byte[number]))
    cuts.append((len(word) - 1, len(data)))
    parts = []
    for (first, begin), (last, end) in itertools.pairwise(cuts):
        first += begin > word_byte[first]  # the first word that is whole
        if first > last:
            parts.append(pieces.encode(data[begin:end].decode()))
            continue
        before = pieces.encode(data[begin : word_byte[first]].decode())
        after = pieces.encode(data[word_byte[last] : end].decode())
        parts.append(np.concatenate([before, token[word[first] : word[last]], after]))
    return parts


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
