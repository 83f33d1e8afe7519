"""Sentence trees: words of a row with branches, the triples that begin with them.

The branches are appended to the row; their positions and attention ranks say which word
they belong to, since the order of columns has no meaning for a network.
"""

# B batch, L columns of a row, H heads (entries with triples), J branches of a head,
# W tokens of the longest branch

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from research.contract.batch import INTERVAL_ARRAYS, WORD, Lexicon, VocabInfo
from research.data.read import lexicon as lexicons
from research.data.tokenize.vocabulary import Vocabulary
from research.objectives.layout.row_notes import RowNotes

BRANCH_TEXTS = ("relation_tail", "tail")


class Branches(NamedTuple):
    """The heads of a graph as a lexicon, and their branches as tokens."""

    heads: Lexicon
    token: np.ndarray  # [H, J, W] int32, -1 beyond a branch's end
    size: np.ndarray  # [H, J] int32; 0: the head has fewer branches


def make_branches(
    lexicon: Lexicon, most: int, text: str, min_tokens: int = 1
) -> Branches:
    """The first `most` triples of each head, in the order of the file.

    Args:
      text: one of BRANCH_TEXTS.
      min_tokens: of a head; shorter heads have no branches.
    """
    triples = lexicon.triples
    assert triples is not None
    head, tail = triples.head, triples.tail
    kept = lexicon.size[head] >= min_tokens
    head, relation, tail = head[kept], triples.relation[kept], tail[kept]
    entries, row = np.unique(head, return_inverse=True)
    order = np.argsort(row, kind="stable")
    row, relation, tail = row[order], relation[order], tail[order]
    nth = np.arange(len(row)) - np.searchsorted(row, row)
    kept = nth < most
    row, nth, relation, tail = (each[kept] for each in (row, nth, relation, tail))
    parts = [(lexicon.token[tail], lexicon.size[tail])]
    if text == "relation_tail":
        of_relation = triples.relation_token[relation], triples.relation_size[relation]
        parts.insert(0, of_relation)
    token = np.full((len(entries), most, sum(t.shape[1] for t, _ in parts)), -1)
    size = np.zeros((len(entries), most), np.int32)
    for part, count in parts:
        begin = size[row, nth]
        for column in range(part.shape[1]):
            here = column < count
            at = row[here], nth[here], begin[here] + column
            token[at] = part[here, column]
        size[row, nth] += count
    heads = Lexicon(lexicon.token[entries], lexicon.size[entries], 0 * entries, ("",))
    return Branches(heads, token.astype(np.int32), size)


def grow(
    group: dict[str, np.ndarray],
    branches: Branches,
    vocab: VocabInfo,
    length: int,
    *,
    visible: str = "tree",
    positions: str = "soft",
) -> dict[str, np.ndarray]:
    """The six arrays and INTERVAL_ARRAYS [B, L] of rows with branches.

    The longest entries from left to right get branches. Branches that do not fit in the
    row, and all after them, are left out. A masked word is not an entry, so its
    branches cannot reveal it.

    A word's tokens attend to the trunk, which is all tokens of the row, and to the
    word's branches; a branch's tokens attend to the branch and to its word.

    Args:
      group: the six arrays [B, trunk] of rows whose tokens attend to each other.
      length: L, at least `trunk`.
      visible: tree; or all: tokens attend to the whole row.
      positions: soft: those of a branch follow that of its word's last token, as do
        those of the next words; flat: as if each word's branches followed it in the
        row.
    """
    token, trunk = group["token"], group["token"].shape[1]
    starts = vocab.starts_word
    is_start = np.ones_like(token, bool) if starts is None else starts[token]
    is_start |= vocab.is_special[token]
    num_tokens = np.max(np.where(group["segment"] > 0, 1 + np.arange(trunk), 0), axis=1)
    entry = lexicons.match(
        token,
        np.where(is_start, WORD, 0).astype(np.uint8),
        num_tokens,
        branches.heads,
        eos_id=vocab.eos_id,
    )
    row, column = np.nonzero(entry >= 0)
    head = entry[row, column]
    # One item for each branch, in the order of the row.
    item, nth = np.nonzero(branches.size[head] > 0)
    row, column, head = row[item], column[item], head[item]
    size = branches.size[head, nth].astype(np.int64)
    end = np.cumsum(size)
    first = np.searchsorted(row, row)
    end -= (end - size)[first]  # counted from the row's first branch
    fits = end <= length - trunk
    item, row, column, head, nth, size, end = (
        each[fits] for each in (item, row, column, head, nth, size, end)
    )
    last = column + branches.heads.size[head] - 1

    # Words with branches are numbered from 1 in each row, and branches after them.
    first = np.searchsorted(row, row)
    new_word = np.append(True, np.diff(item) > 0)[: len(item)]
    word = np.cumsum(new_word) - (np.cumsum(new_word) - new_word)[first]
    num_words = np.zeros(len(token), np.int64)
    np.maximum.at(num_words, row, word)
    rank = num_words[row] + np.arange(len(row)) - first + 1

    grown = {
        name: np.pad(array, ((0, 0), (0, length - trunk)))
        for name, array in group.items()
    }
    grown["token"][:, trunk:] = vocab.pad_id
    low, low2, reach2 = (np.zeros_like(grown["rank"]) for _ in INTERVAL_ARRAYS)
    in_trunk = grown["segment"] > 0
    grown["reach"] = np.where(in_trunk, num_words[:, None], 0)
    reach2 -= 1  # nothing, where a token has no branch
    reach2[~in_trunk], low2[in_trunk] = 0, 1 << 20
    # Tokens of words: their ranks, and those of their branches.
    at = np.repeat(np.arange(len(item)), branches.heads.size[head])
    offset = np.arange(len(at)) - np.searchsorted(at, at)
    where = row[at], column[at] + offset
    grown["rank"][where] = word[at]
    np.minimum.at(low2, where, rank[at])
    np.maximum.at(reach2, where, rank[at])
    # Tokens of branches.
    at = np.repeat(np.arange(len(item)), size)
    offset = np.arange(len(at)) - np.searchsorted(at, at)
    where = row[at], trunk + end[at] - size[at] + offset
    of_word = row[at], last[at]
    grown["token"][where] = branches.token[head[at], nth[at], offset]
    grown["segment"][where] = group["segment"][of_word]
    grown["token_type"][where] = group["token_type"][of_word]
    grown["position"][where] = group["position"][of_word] + 1 + offset
    grown["rank"][where] = low[where] = grown["reach"][where] = rank[at]
    low2[where] = reach2[where] = word[at]
    if positions == "flat":
        inserted = np.zeros((len(token), trunk + 1), np.int64)
        np.add.at(inserted, (row, last + 1), size)
        before = np.cumsum(inserted, axis=1)
        grown["position"][:, :trunk] += before[:, :-1] * (group["segment"] > 0)
        # of the branches of this word those before this one, and those of other words
        first_of_word = np.searchsorted(item, item)
        own = end - size - (end - size)[first_of_word]
        grown["position"][where] += (before[row, last] + own)[at].astype(np.int32)
    if visible == "all":
        here = grown["segment"] > 0
        grown["rank"] = np.zeros_like(grown["rank"])
        grown["reach"] = np.zeros_like(grown["rank"])
        low, reach2 = 0 * low, np.where(here, -1, 0)
        low2 = np.where(here, 1 << 20, 0)
    found = grown | dict(zip(INTERVAL_ARRAYS, (low, low2, reach2), strict=True))
    return {name: array.astype(np.int32) for name, array in found.items()}


def read_tree(
    row: Mapping[str, np.ndarray],
) -> list[tuple[list[int], list[list[int]]]]:
    """The words of a row of `grow` in order: their columns and those of each branch.

    Tokens between two words with branches count as one. Rows with visible=all have no
    tree.

    Args:
      row: arrays [L].
    """
    used, rank = row["segment"] > 0, row["rank"]
    in_branch = used & (row["low"] > 0)
    branches: dict[int, list[list[int]]] = {}
    for number in np.unique(rank[in_branch]):
        columns = np.flatnonzero(in_branch & (rank == number))
        word = int(row["low2"][columns[0]])
        branches.setdefault(word, []).append(columns.tolist())
    found: list[tuple[list[int], list[list[int]]]] = []
    last = -1
    for column in np.flatnonzero(used & ~in_branch).tolist():
        word = int(rank[column])
        if word == last:
            found[-1][0].append(column)
        else:
            found.append(([column], branches.get(word, [])))
        last = word
    return found


def tree_notes(row: Mapping[str, np.ndarray], vocabulary: Vocabulary) -> RowNotes:
    """The sentence tree of a row of `grow`, with each branch after its word."""
    tree = read_tree(row)

    def spell(columns: list[int]) -> str:
        return vocabulary.decode(row["token"][columns].tolist()).strip()

    words = [
        (spell(columns), [spell(branch) for branch in branches])
        for columns, branches in tree
    ]
    order = [c for columns, branches in tree for c in sum(branches, columns)]
    lines = []
    for word, branches in words:
        for n, branch in enumerate(branches):
            mark = "└" if n + 1 == len(branches) else "├"
            lines.append(f"{word if n == 0 else ' ' * len(word)} {mark} {branch}")
    return RowNotes({"branches": lines or ["none"]}, order, words)
