"""Entity replacement: predicts which mentions are replaced (WKLM, Xiong et al. 2020).

Mentions are the entries of data.lexicon in a text. Some are replaced by another entity
of their type, which is predicted from the states before and after each mention. Tokens
outside mentions are masked as in BERT, at a lower rate.
"""

# B batch, L length, K masked positions, M mentions of a row, R raw tokens, W tokens of
# the text with replaced mentions, D width

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from research import networks, objectives
from research.contract.batch import (
    ArraySpec,
    Batch,
    Example,
    Lexicon,
    VocabInfo,
    input_specs,
    scored_specs,
)
from research.contract.errors import UserError
from research.contract.fields import check_sum, choice, fraction, free_text, number
from research.data import counter_rng
from research.data.read import lexicon as lexicons
from research.data.rows import TextSpec
from research.objectives.layout import input_format
from research.objectives.losses.cross_entropy import (
    Term,
    binary_cross_entropy,
    masked_cross_entropy,
    with_accuracy,
)
from research.objectives.mlm import mlm
from research.objectives.noise import cloze, mask_units
from research.objectives.noise.masking import (
    STAYS,
    mask_budget,
    max_masked,
    replace_chosen,
)


@dataclass(frozen=True)
class Objective(objectives.Objective):
    """Reads bos, L - 2 tokens, eos; a text that grows is truncated at its end.

    Each mention is replaced with probability `replace_rate`, but never two successive
    ones; the new entity is drawn uniformly from its type. A row has at most M mentions
    (a quarter of its tokens), drawn at random; other mentions, and those whose type has
    no other entity, are plain text.

    "Released code" is the first author's: xwhan/fairseq-wklm, branch
    knowledge_pretrain, kdn_model.py, kdn_dataset.py and preprocess_kdn.py.
    """

    replace_rate: float = number(1 / 3, above=0, most=1 / 2)  # fraction of mentions;
    # one after an unreplaced mention is replaced with p = replace_rate / (1 -
    # replace_rate), one after a replaced mention never
    entry_types: str = free_text("")  # of data.lexicon, separated by commas; "": all
    coef: float = number(1.0, least=0)  # weight of the loss of mentions; that of masked
    # tokens has 1
    rate: float = number(0.05, above=0, below=1)  # fraction of a row's tokens that is
    # chosen, outside mentions
    masks: str = choice("outside", ("outside", "dropped"))  # outside: tokens outside
    # mentions are chosen; dropped: tokens anywhere, but those in mentions are neither
    # masked nor scored, so that fewer are (released code)
    head: str = choice("sigmoid", ("sigmoid", "softmax"))  # on the states before and
    # after a mention; sigmoid: a linear layer with one value; softmax: two values, from
    # the states after the layers before the readout's table (released code)
    text_unit: str = choice("stream", ("stream", "pieces"))  # pieces: rows of one
    # document; rows without mentions are not scored (released code)
    mask_fraction: float = fraction(0.8)  # of the chosen: becomes the mask token
    random_fraction: float = fraction(0.1)  # of the chosen: becomes a random ordinary
    # token; the rest stays

    pattern = "full"
    lexicon_lines = mask_units.LINES
    head_weights: ClassVar = {"entity": "mention_weight"}
    token_terms = ("mlm",)
    score_methods: ClassVar = cloze.METHODS
    shown_answers: ClassVar = {
        "mlm": STAYS,
        "entity": "rare entities are read more often where they replace others",
    }
    score_rows: ClassVar = staticmethod(cloze.score_rows)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_sum(self, "mask_fraction", "random_fraction")

    @property
    def fills_masks(self) -> bool:
        return self.mask_fraction > 0

    @property
    def min_length(self) -> int:
        """bos, a token, eos; with text_unit pieces, which need a mention, one more."""
        return 3 + (self.text_unit == "pieces")

    def num_scored(self, length: int) -> int:
        """K: 26 at length 512."""
        return max_masked(self.rate, length)

    def num_mentions(self, length: int) -> int:
        """M: 128 at length 512."""
        return max(1, length // 4)

    def text_spec(self, length: int) -> TextSpec:
        return TextSpec(self.text_unit, length - 2)

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
        """Replaces mentions, then masks tokens outside them.

        Raises:
          UserError: data.lexicon has no type with two entities.
        """
        lexicon, replaceable = replaceable_entries(vocab, self.entry_types)
        arrays = example.token, example.flags, example.length
        entry = lexicons.match(*arrays, lexicon, eos_id=vocab.eos_id)
        found = (entry >= 0) & replaceable[entry]
        max_mentions = self.num_mentions(length)
        scored = counter_rng.choose_subset(
            key, "mentions", found, np.full(len(key), max_mentions)
        )
        replaced = choose_replaced(key, scored, self.replace_rate)
        new = np.where(replaced, other_entity(key, entry, lexicon), -1)
        old = np.where(found, entry, -1)
        text = replace_entities(example, old, new, lexicon, length - 2)

        token, num_tokens = input_format.add_special_tokens(text.example, vocab, length)
        mentions = _mention_arrays(scored, replaced, text, max_mentions)
        count = self._num_masked(num_tokens, length)
        if self.text_unit == "pieces":
            count = np.where(mentions["mention_weight"].any(axis=1), count, 0)
        masked = self._mask(token, count, text.inside, key, vocab)
        return input_format.full_input(token, num_tokens) | masked | mentions

    def _num_masked(self, num_tokens: np.ndarray, length: int) -> np.ndarray:
        """[B]: how many of `num_tokens` [B], including specials, are chosen."""
        most = self.num_scored(length)
        if self.masks == "outside":
            return mask_budget(num_tokens, self.rate, most)
        num_raw = np.maximum(num_tokens - 2, 0)
        return mask_budget(num_raw, self.rate, most, rounding="up")

    def _mask(
        self,
        token: np.ndarray,
        count: np.ndarray,
        inside: np.ndarray,
        key: np.ndarray,
        vocab: VocabInfo,
    ) -> dict[str, np.ndarray]:
        """Chooses `count` [B] tokens of `token` [B, L], and masks them in place.

        Args:
          inside: [B, L - 2] bool, raw tokens in mentions.
        """
        candidate = ~vocab.is_special[token]
        free = candidate.copy()
        free[:, 1:-1] &= ~inside
        if self.masks == "outside":
            candidate = free
        chosen = counter_rng.choose_subset(key, "choose", candidate, count)
        return replace_chosen(
            token,
            chosen & free,
            key,
            vocab,
            num_scored=self.num_scored(token.shape[1]),
            mask_fraction=self.mask_fraction,
            random_fraction=self.random_fraction,
        )

    def for_scoring(self) -> mlm.Objective:
        """`mlm`, which has the same network and the same loss of masked tokens."""
        return mlm.Objective()

    def needs(self, vocab: VocabInfo) -> networks.Needs:
        """Raises UserError: data.lexicon has no type with two entities."""
        replaceable_entries(vocab, self.entry_types)
        heads = {"entity": self._head_spec()}
        return networks.Needs(pattern=self.pattern, transform=True, heads=heads)

    def _head_spec(self) -> networks.HeadSpec:
        if self.head == "sigmoid":
            return networks.HeadSpec(1, "none")
        return networks.HeadSpec(2, "none", dropout=True)

    def loss(
        self, net: networks.BoundNetwork, batch: Batch, key: jax.Array
    ) -> tuple[dict[str, Term], Any]:
        """Terms: mlm, entity; metrics: accuracies, fraction of mentions replaced."""
        positions = [batch[name] for name in ("scored", "before", "after")]
        states = net.states(batch, scored=jnp.concatenate(positions, axis=1))
        num_scored, mentions = positions[0].shape[1], positions[1].shape[1]
        masked, before, after = jnp.split(
            states, [num_scored, num_scored + mentions], axis=1
        )
        terms = masked_cross_entropy("mlm", net.readout(masked), batch)
        if self.head == "softmax":
            before, after = (net.readout(side)[0] for side in (before, after))
        both_BM2D = jnp.concatenate([before, after], axis=-1)
        values = net.head("entity", both_BM2D)
        # Two values give the log-odds of the second.
        logits = values[..., -1] - (values[..., 0] if self.head == "softmax" else 0)
        replaced, weight = batch["replaced"], batch["mention_weight"]
        term, correct = binary_cross_entropy(logits, replaced, weight)
        terms |= with_accuracy("entity", term, correct, coef=self.coef)
        count = jnp.sum(weight * replaced)
        return terms | {"replaced": Term(count, term.weight, 0.0)}, ()


def replaceable_entries(
    vocab: VocabInfo, entry_types: str
) -> tuple[Lexicon, np.ndarray]:
    """The lexicon, and [E] bool: entries of these types whose type has other entries.

    Raises:
      UserError: there is no such entry.
    """
    lexicon, selected = mask_units.select_entries(vocab, entry_types)
    selected = selected & (np.bincount(lexicon.entry_type)[lexicon.entry_type] > 1)
    if not selected.any():
        raise UserError(
            "objective wklm replaces entities by others of their type, but each type "
            f"of data.lexicon ({entry_types or ', '.join(lexicon.type_names)}) has but "
            "one"
        )
    return lexicon, selected


def choose_replaced(key: np.ndarray, scored: np.ndarray, rate: float) -> np.ndarray:
    """[B, R] bool: which of the mentions `scored` [B, R] to replace.

    Each is replaced with probability `rate`, but never two successive ones: the first
    of a row with `rate`, others with rate / (1 - rate) if the one before is kept.
    """
    row, position = np.nonzero(scored)
    first = np.append(True, np.diff(row) > 0)[: len(row)]
    draw = counter_rng.uniform(key, "replaced mentions", scored.shape[1])[row, position]
    eligible = draw < np.where(first, rate, rate / (1 - rate))
    # The first, third, ... of successive eligible mentions are chosen.
    number = np.arange(len(row))
    run_start = np.maximum.accumulate(np.where(first | ~eligible, number, 0))
    begin = run_start + ~eligible[run_start]
    chosen = np.zeros(scored.shape, bool)
    chosen[row, position] = eligible & ((number - begin) % 2 == 0)
    return chosen


def other_entity(key: np.ndarray, entry: np.ndarray, lexicon: Lexicon) -> np.ndarray:
    """[B, R] int64: another entry of the type of `entry` [B, R], drawn uniformly.

    The result is arbitrary if there is no other entry.
    """
    by_type = np.argsort(lexicon.entry_type, kind="stable")
    count = np.bincount(lexicon.entry_type)
    begin = np.cumsum(count) - count
    rank = np.empty(len(by_type), np.int64)
    rank[by_type] = np.arange(len(by_type)) - begin[lexicon.entry_type[by_type]]
    entry_type = lexicon.entry_type[entry]
    draw = counter_rng.uniform(key, "entity", entry.shape[1])
    shift = 1 + (draw * (count[entry_type] - 1)).astype(np.int64)
    return by_type[begin[entry_type] + (rank[entry] + shift) % count[entry_type]]


class ReplacedText(NamedTuple):
    """A text with replaced entities, at most W tokens per row."""

    example: Example
    inside: np.ndarray  # [B, W] bool: the token is in a mention
    begin: np.ndarray  # [B, R]: position of each raw token in the new text
    end: np.ndarray  # [B, R]: position after it; for the first token of a mention, the
    # position after the mention


def replace_entities(
    example: Example, entry: np.ndarray, new: np.ndarray, lexicon: Lexicon, width: int
) -> ReplacedText:
    """The text with the entities `new`, where they are not -1.

    Args:
      entry, new: [B, R], -1 where no mention begins.
    """
    num_rows, num_raw = entry.shape
    row, position = np.nonzero(entry >= 0)
    size = np.ones(entry.shape, np.int64)
    size[row, position] = lexicon.size[entry[row, position]]
    edge = np.zeros((num_rows, num_raw + 1), np.int64)
    edge[row, position] += 1
    np.subtract.at(edge, (row, position + size[row, position]), 1)
    inside = np.cumsum(edge[:, :-1], axis=1) > 0

    count = (np.arange(num_raw) < example.length[:, None]).astype(np.int64)
    count[inside & (entry < 0)] = 0  # written with the first token of their mention
    replaced = new >= 0
    sizes = np.where(replaced, lexicon.size[new], size)
    count[row, position] = sizes[row, position]
    end = np.cumsum(count, axis=1)
    begin = end - count

    source = np.repeat(np.arange(entry.size), count.ravel())
    target = np.repeat(np.cumsum(end[:, -1]) - end[:, -1], end[:, -1])
    target = np.arange(len(source)) - target
    kept = target < width
    source, target = source[kept], target[kept]
    offset = target - begin.ravel()[source]
    is_new = replaced.ravel()[source]
    value = example.token.ravel()[np.minimum(source + offset, entry.size - 1)]
    value[is_new] = lexicon.token[new.ravel()[source[is_new]], offset[is_new]]
    pad = np.zeros((num_rows, width), np.int32)
    at = source // num_raw, target
    token, covered = pad.copy(), pad.astype(bool)
    token[at], covered[at] = value, inside.ravel()[source]
    length = np.minimum(end[:, -1], width).astype(np.int32)
    flags = pad.astype(np.uint8)
    text = example._replace(
        token=token, flags=flags, length=length, first_length=length
    )
    return ReplacedText(text, covered, begin, end)


def _mention_arrays(
    scored: np.ndarray, replaced: np.ndarray, text: ReplacedText, max_mentions: int
) -> dict[str, np.ndarray]:
    """before, after, replaced, mention_weight [B, M] of the scored mentions.

    A mention that is truncated by the end of the text has weight 0.
    """
    width = text.example.token.shape[1]
    scored = scored & (text.end <= width)
    position, used = input_format.scored_positions(scored, max_mentions)
    begin, end, is_replaced = (
        np.take_along_axis(array, position, axis=1)
        for array in (text.begin, text.end, replaced)
    )
    each = {"before": begin, "after": end + 1, "replaced": is_replaced}
    arrays = {name: np.where(used, x, 0).astype(np.int32) for name, x in each.items()}
    return arrays | {"mention_weight": used.astype(np.float32)}
