"""Entity replacement: which mentions are of another entity (WKLM, Xiong et al. 2020).

Mentions are the entries of data.lexicon that a text has. Some become another entity of
their kind, and each is asked for by the states before and after it; tokens outside of
mentions are masked as in BERT, though fewer of them.
"""

# B batch, L length, K hidden places, M mentions of a row, R raw tokens, D width

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from research import models
from research.batch import (
    ArraySpec,
    Example,
    Lexicon,
    TextSpec,
    VocabInfo,
    input_specs,
    scored_specs,
)
from research.data import counter_rng
from research.data.corpora import lexicon as lexicons
from research.errors import UserError
from research.objectives.corruption import mask_units
from research.objectives.corruption.masking import budget, hide
from research.objectives.inputs import input_format
from research.objectives.losses.cross_entropy import (
    Term,
    binary_cross_entropy,
    masked_cross_entropy,
)


@dataclass(frozen=True)
class Objective:
    """TextSpec bos, L - 2 tokens, eos; a text that grows is cut at its end.

    A mention is replaced with probability `replace` wherever it stands, but never two
    in a row, and by all entities of its kind alike. Those past the M-th of a row (a
    fourth of its tokens) are plain text, as are those whose kind has no other entity;
    which ones is drawn.
    """

    replace: float = 1 / 3  # share of the mentions, at most 1/2; one that follows a
    # mention of its own entity is replaced with probability replace / (1 - replace)
    kinds: str = ""  # of entries of data.lexicon, separated by commas; "": all
    coef: float = 1.0  # weight of the mentions' loss beside that of hidden tokens
    rate: float = 0.05  # share of a row's tokens that is hidden, outside of mentions
    mask: float = 0.8  # share of the hidden that becomes the mask token
    random: float = 0.1  # share that becomes an ordinary token; the rest stays

    family = "contrastive"
    pattern = "full"
    supports_accumulation = True

    def __post_init__(self):
        if not 0 < self.replace <= 1 / 2:
            raise ValueError(f"replace is above 0, at most 1/2, not {self.replace}")
        if not 0 < self.rate < 1:
            raise ValueError(f"rate is between 0 and 1, not {self.rate}")
        if min(self.mask, self.random, 1 - self.mask - self.random) < -1e-9:
            raise ValueError("mask and random are shares, together at most 1")

    def num_scored(self, length: int) -> int:
        """K: 26 at length 512."""
        return math.ceil(self.rate * length - 1e-9)

    def num_mentions(self, length: int) -> int:
        """M: 128 at length 512."""
        return max(1, length // 4)

    def text_spec(self, length: int) -> TextSpec:
        return TextSpec("stream", length - 2)

    def batch_spec(self, length: int) -> dict[str, ArraySpec]:
        mentions = self.num_mentions(length)
        names = ("before", "after", "replaced")
        return (
            input_specs(length)
            | scored_specs(self.num_scored(length))
            | {name: ArraySpec((mentions,)) for name in names}
            | {"mention_weight": ArraySpec((mentions,), np.float32)}
        )

    def corrupt(
        self, example: Example, key: np.ndarray, vocab: VocabInfo, length: int
    ) -> dict[str, np.ndarray]:
        """Replaces mentions, then hides tokens outside of them.

        Raises:
          UserError: there is no data.lexicon with two entities of a kind.
        """
        known, wanted = entities(vocab, self.kinds)
        entry = lexicons.match(example.token, example.flags, example.length, known)
        found = (entry >= 0) & wanted[entry]
        most = self.num_mentions(length)
        asked = counter_rng.choose_subset(
            key, "mentions", found, np.full(len(key), most)
        )
        gone = alternate(key, asked, self.replace)
        new = np.where(gone, other(key, entry, known), -1)
        text = rewrite(example, np.where(found, entry, -1), new, known, length - 2)

        token, num_tokens = input_format.enclose(text.example, vocab, length)
        free = ~vocab.is_special[token]
        free[:, 1:-1] &= ~text.inside
        count = budget(num_tokens, self.rate, self.num_scored(length))
        hidden = hide(
            token,
            counter_rng.choose_subset(key, "choose", free, count),
            key,
            vocab,
            num_scored=self.num_scored(length),
            mask=self.mask,
            random=self.random,
        )
        return (
            input_format.full(token, num_tokens)
            | hidden
            | _questions(asked, gone, text, most)
        )

    def network(self, options: Any, vocab: VocabInfo) -> Any:
        """Raises UserError: as `corrupt`."""
        entities(vocab, self.kinds)
        return models.Transformer(
            options,
            size=vocab.size,
            pattern=self.pattern,
            transform=True,
            heads={"entity": models.HeadSpec(1, "none")},
        )

    def loss(self, net: Any, batch: dict, key: Any) -> tuple[dict[str, Term], Any]:
        """Terms: mlm, entity; their accuracies, and the share of mentions replaced."""
        places = [batch[name] for name in ("scored", "before", "after")]
        states = net.states(batch, scored=jnp.concatenate(places, axis=1))
        num_scored, mentions = places[0].shape[1], places[1].shape[1]
        here, before, after = jnp.split(
            states, [num_scored, num_scored + mentions], axis=1
        )
        terms = masked_cross_entropy("mlm", net.readout(here), batch)
        sides_BM2D = jnp.concatenate([before, after], axis=-1)
        logits = net.head("entity", sides_BM2D)[..., 0]
        replaced, weight = batch["replaced"], batch["mention_weight"]
        told, right = binary_cross_entropy(logits, replaced, weight)
        return terms | {
            "entity": told._replace(coef=self.coef),
            "entity_accuracy": Term(right, told.weight, 0.0),
            "replaced": Term(jnp.sum(weight * replaced), told.weight, 0.0),
        }, ()


def entities(vocab: VocabInfo, kinds: str) -> tuple[Lexicon, np.ndarray]:
    """The lexicon, and [E] bool: entries of these kinds that have another beside them.

    Raises:
      UserError: there is no such entry.
    """
    known, wanted = mask_units.lexicon(vocab, kinds)
    wanted = wanted & (np.bincount(known.entry_type)[known.entry_type] > 1)
    if not wanted.any():
        raise UserError(
            "objective wklm replaces entities by others of their kind, but each kind "
            f"of data.lexicon ({kinds or ', '.join(known.type_names)}) has but one"
        )
    return known, wanted


def alternate(key: np.ndarray, asked: np.ndarray, share: float) -> np.ndarray:
    """[B, R] bool: which of the places `asked` [B, R] are drawn, never two in a row.

    Each is drawn with probability `share`: the first of a row by itself, any other
    with share / (1 - share) if the one before it is not.
    """
    row, place = np.nonzero(asked)
    first = np.append(True, np.diff(row) > 0)[: len(row)]
    draw = counter_rng.uniform(key, "replace", asked.shape[1])[row, place]
    able = draw < np.where(first, share, share / (1 - share))
    # Of those able in an unbroken row of mentions it is the first, third, ...
    number = np.arange(len(row))
    broken = np.maximum.accumulate(np.where(first | ~able, number, 0))
    begin = broken + ~able[broken]
    drawn = np.zeros(asked.shape, bool)
    drawn[row, place] = able & ((number - begin) % 2 == 0)
    return drawn


def other(key: np.ndarray, entry: np.ndarray, known: Lexicon) -> np.ndarray:
    """[B, R] int64: another entry of the kind of each `entry` [B, R], all alike.

    Of any value where there is none.
    """
    by_kind = np.argsort(known.entry_type, kind="stable")
    count = np.bincount(known.entry_type)
    begin = np.cumsum(count) - count
    rank = np.empty(len(by_kind), np.int64)
    rank[by_kind] = np.arange(len(by_kind)) - begin[known.entry_type[by_kind]]
    kind = known.entry_type[entry]
    draw = counter_rng.uniform(key, "entity", entry.shape[1])
    turn = 1 + (draw * (count[kind] - 1)).astype(np.int64)
    return by_kind[begin[kind] + (rank[entry] + turn) % count[kind]]


class Rewritten(NamedTuple):
    """A text with other entities, W tokens a row at most."""

    example: Example
    inside: np.ndarray  # [B, W] bool: of a mention
    begin: np.ndarray  # [B, R]: where each token of the old text begins in the new one
    end: np.ndarray  # [B, R]: and ends; of a mention's first token: where it ends


def rewrite(
    example: Example, entry: np.ndarray, new: np.ndarray, known: Lexicon, width: int
) -> Rewritten:
    """The text with entities `new` where they are not -1.

    entry, new: [B, R], -1 but where a mention begins.
    """
    num_rows, num_raw = entry.shape
    row, place = np.nonzero(entry >= 0)
    size = np.ones(entry.shape, np.int64)
    size[row, place] = known.size[entry[row, place]]
    edge = np.zeros((num_rows, num_raw + 1), np.int64)
    edge[row, place] += 1
    np.subtract.at(edge, (row, place + size[row, place]), 1)
    inside = np.cumsum(edge[:, :-1], axis=1) > 0

    count = (np.arange(num_raw) < example.length[:, None]).astype(np.int64)
    count[inside & (entry < 0)] = 0  # they come with the first token of their mention
    gone = new >= 0
    count[row, place] = np.where(gone, known.size[new], size)[row, place]
    end = np.cumsum(count, axis=1)
    begin = end - count

    source = np.repeat(np.arange(entry.size), count.ravel())
    where = np.repeat(np.cumsum(end[:, -1]) - end[:, -1], end[:, -1])
    where = np.arange(len(source)) - where
    kept = where < width
    source, where = source[kept], where[kept]
    inner = where - begin.ravel()[source]
    replaced = gone.ravel()[source]
    value = example.token.ravel()[np.minimum(source + inner, entry.size - 1)]
    value[replaced] = known.token[new.ravel()[source[replaced]], inner[replaced]]
    pad = np.zeros((num_rows, width), np.int32)
    at = source // num_raw, where
    token, cover = pad.copy(), pad.astype(bool)
    token[at], cover[at] = value, inside.ravel()[source]
    length = np.minimum(end[:, -1], width).astype(np.int32)
    flags = pad.astype(np.uint8)
    text = example._replace(
        token=token, flags=flags, length=length, first_length=length
    )
    return Rewritten(text, cover, begin, end)


def _questions(asked, gone, text: Rewritten, most: int) -> dict[str, np.ndarray]:
    """before, after, replaced, mention_weight [B, M] of the mentions asked about.

    One that is cut at the end of the text has weight 0.
    """
    width = text.example.token.shape[1]
    asked = asked & (text.end <= width)
    place, used = input_format.slots(asked, most)
    begin, end = (np.take_along_axis(x, place, axis=1) for x in (text.begin, text.end))
    answer = np.take_along_axis(gone, place, axis=1)
    each = {"before": begin, "after": end + 1, "replaced": answer}
    arrays = {name: np.where(used, x, 0).astype(np.int32) for name, x in each.items()}
    return arrays | {"mention_weight": used.astype(np.float32)}
