"""Languages of corpora: the token types of their texts, and the sides of parallel ones.

A corpus is parallel or in one language. A document of a parallel corpus is a text in
two languages, its two sides: the first part, or the first paragraph of a text without
parts, and the rest.
"""

# B batch, C corpora of data.mixture, R raw tokens of an example

import numpy as np

from research.contract.batch import PARAGRAPH, PART, Example
from research.contract.errors import UserError


def parse_languages(languages: str) -> np.ndarray:
    """[C, 2] int32: token types of the sides of each corpus; -1: no second side.

    Args:
      languages: one entry for all corpora, or one per corpus of data.mixture in the
        order of names, separated by spaces: 0:1 for parallel text, 0 for one language.

    Raises:
      ValueError: the entries are not numbers and pairs of numbers.
    """
    try:
        entries = [entry.split(":") for entry in languages.split()]
        types = np.array([[*map(int, e), -1][:2] for e in entries], np.int32)
        valid = all(len(entry) <= 2 for entry in entries)
        valid &= min(int(n) for entry in entries for n in entry) >= 0
    except (ValueError, OverflowError):
        valid = False
    if not valid:
        raise ValueError(
            "languages must be token types such as 0, or pairs such as 0:1, separated "
            f"by spaces, not {languages!r}"
        )
    return types


def parse_pair(languages: str) -> tuple[int, int]:
    """Token types of the text that is read and of the text that is written.

    Args:
      languages: such as 0:1, or 0 for both.

    Raises:
      ValueError: it is not one number or pair of numbers.
    """
    types = parse_languages(languages)
    if len(types) > 1:
        raise ValueError(f"languages must be one pair such as 0:1, not {languages!r}")
    read, written = types[0].tolist()
    return read, read if written < 0 else written


def check_corpora(types: np.ndarray, num: int) -> None:
    """Raises UserError: `types` does not fit `num` corpora.

    `types` is [C, 2], from `parse_languages`.
    """
    if len(types) not in (1, num):
        raise UserError(
            f"objective.languages has {len(types)} entries for {num} corpora; give one "
            "for all, or one for each of data.mixture in order of their names"
        )


def types_of_rows(types: np.ndarray, corpus: np.ndarray) -> np.ndarray:
    """[B, 2] int32: the languages of each row; -1: no second language.

    Args:
      types: [C, 2], from `parse_languages`.
      corpus: [B], the index of each row's corpus.
    """
    return types[np.where(len(types) > 1, corpus, 0)]


def two_sides(example: Example, room: int) -> tuple[np.ndarray, np.ndarray]:
    """begin, size [B, 2] of the sides of each text; at most `room` tokens are read.

    If a text has parts, a side may have several paragraphs.
    """
    num_raw = np.minimum(example.length, room).astype(np.int64)
    parts, paragraphs = ((example.flags & bit) > 0 for bit in (PART, PARAGRAPH))
    starts = np.where(np.any(parts, axis=1)[:, None], parts, paragraphs)
    starts[:, :1] = False
    starts &= np.arange(starts.shape[1]) < num_raw[:, None]
    cut = np.where(starts.any(axis=1), starts.argmax(axis=1), num_raw)
    return np.stack([0 * cut, cut], axis=1), np.stack([cut, num_raw - cut], axis=1)
