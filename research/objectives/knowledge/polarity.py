"""The sentiment of words: polarity, part of speech, and glosses."""

# B batch, L length, R raw tokens, S senses of a word

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from research.contract.batch import Example, VocabInfo
from research.contract.errors import UserError
from research.data.read import lexicon as lexicons

POLARITIES = ("negative", "positive", "neutral")
"""Polarities by index; the last one adds nothing to an input."""

PARTS_OF_SPEECH = "varnu"
"""Verb, adjective, adverb, noun, other; the last one adds nothing to an input."""

_TAGS = {
    **{"VERB": "v", "AUX": "v", "ADJ": "a", "ADV": "r", "NOUN": "n", "PROPN": "n"},
    **{"V": "v", "A": "a", "S": "a", "R": "r", "N": "n"},
    **{"VB": "v", "JJ": "a", "RB": "r", "NN": "n"},
}
"""Tags of Universal Dependencies and of WordNet, whose satellite adjectives are S, and
the first two letters of those of the Penn Treebank -> part of speech."""

NEUTRAL, OTHER = len(POLARITIES) - 1, len(PARTS_OF_SPEECH) - 1


def tag_class(tag: str) -> int:
    """The index of a tag's part of speech."""
    tag = tag.upper()
    return PARTS_OF_SPEECH.index(_TAGS.get(tag) or _TAGS.get(tag[:2], "u"))


def word_polarity(
    example: Example, vocab: VocabInfo, types: Sequence[str], *, shuffled: bool = False
) -> np.ndarray:
    """[B, R] int32: the polarity of the entry of data.lexicon that a token is in.

    Args:
      types: the types of negative and positive entries.
      shuffled: types are permuted among the entries.

    Raises:
      UserError: the lexicon has no entries of these types.
    """
    lexicon = vocab.lexicon
    if lexicon is None or not {*types} <= {*lexicon.type_names}:
        negative, positive = types
        raise UserError(
            "the objective needs words with a polarity: set data.lexicon to a file of "
            f"lines word<TAB>{positive} and word<TAB>{negative}"
        )
    known = {name: n for n, name in enumerate(types)}
    of_type = np.array([known.get(name, NEUTRAL) for name in lexicon.type_names])
    entry = lexicons.match(
        example.token,
        example.flags,
        example.length,
        lexicon,
        eos_id=vocab.eos_id,
        first=example.first_length,
    )
    found = np.full(entry.shape, NEUTRAL, np.int32)
    row, column = np.nonzero(entry >= 0)
    size = lexicon.size[entry[row, column]]
    item = np.repeat(np.arange(len(row)), size)
    offset = np.arange(len(item)) - np.searchsorted(item, item)
    entry_type = lexicon.entry_type
    if shuffled:
        entry_type = np.random.default_rng(0).permutation(entry_type)
    polarity = of_type[entry_type[entry[row, column]]]
    found[row[item], column[item] + offset] = polarity[item]
    return found


def features(
    polarity: jax.Array, part_of_speech: jax.Array, level: jax.Array, levels: int
) -> jax.Array:
    """Float32 [B, L, 6 + levels]: the inputs of positions in addition to tokens.

    A network projects them without a bias, which gives the sum of a row of each of
    three tables: neutral, other and unknown have rows of 0 and no gradient, as the
    padding rows of the released code.

    Args:
      polarity, part_of_speech, level: [B, L] int32; a level of `levels` is unknown.
    """
    columns = ((part_of_speech, OTHER), (polarity, NEUTRAL), (level, levels))
    return jnp.concatenate([jax.nn.one_hot(x, size) for x, size in columns], axis=-1)


class GlossPolarity(NamedTuple):
    """The polarity of a word from its senses."""

    weight: np.ndarray  # [S], of each sense
    score: float
    polarity: int  # an index of POLARITIES


def attend_to_glosses(
    cosine: jax.Array, sense_number: jax.Array, score: jax.Array
) -> GlossPolarity:
    """The polarity of a word in a sentence, from the glosses of its senses.

    The weight of a sense is softmax((cos + 1) / (2 n)) with n its number in WordNet
    (Ke et al. 2020, equations 1 to 3; thu-coai/SentiLARE, preprocess).

    Args:
      cosine: [S], between the sentence and each gloss without its examples.
      sense_number: [S], from 1.
      score: [S], positive minus negative score of each sense in SentiWordNet.
    """
    logit = (np.asarray(cosine) + 1) / (2 * np.asarray(sense_number))
    weight = np.exp(logit - logit.max())
    weight /= weight.sum()
    total = float(weight @ np.asarray(score))
    return GlossPolarity(weight, total, NEUTRAL if total == 0 else int(total > 0))
