"""Sentence trees: words of a row with branches, the triples that begin with them.

The branches are appended to the row; their positions and attention ranks say which word
they belong to, since the order of columns has no meaning for a network.
"""

# B batch, L columns of a row, H heads (entries with triples), J branches of a head,
# W tokens of the longest branch

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from research.contract.batch import WORD, Lexicon, VocabInfo
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


class PlacedBranches(NamedTuple):
    """The branches of rows, in the order of the rows and of their words: arrays [N]."""

    row: np.ndarray
    item: np.ndarray  # the word with this branch, numbered across rows
    head: np.ndarray  # the head of its triple
    nth: np.ndarray  # which of the head's branches it is
    first: np.ndarray  # the first column of its word
    last: np.ndarray  # the last column of its word
    size: np.ndarray  # its number of tokens
    end: np.ndarray  # of it and those before it in its row
    word: np.ndarray  # the rank of its word: words with branches count from 1 in a row
    rank: np.ndarray  # its own rank: branches count on after the words
    num_words: np.ndarray  # [B] words with branches

    def columns(self, trunk: int) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray]]:
        """The branch of each token of branches, and the token's row and column."""
        branch, offset = _each(self.size)
        begin = trunk + self.end - self.size
        return branch, (self.row[branch], begin[branch] + offset)


def _each(size: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of groups of `size` [N] members: the group of each, and its number there."""
    group = np.repeat(np.arange(len(size)), size)
    return group, np.arange(len(group)) - np.searchsorted(group, group)


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
    trunk = group["token"].shape[1]
    placed = _place(group, branches, vocab, length - trunk)
    grown = {
        name: np.pad(array, ((0, 0), (0, length - trunk)))
        for name, array in group.items()
    }
    grown["token"][:, trunk:] = vocab.pad_id
    branch, where = placed.columns(trunk)
    _, offset = _each(placed.size)
    of_word = placed.row[branch], placed.last[branch]
    of_triple = placed.head[branch], placed.nth[branch], offset
    grown["token"][where] = branches.token[of_triple]
    for name in ("segment", "token_type"):
        grown[name][where] = group[name][of_word]
    grown["position"][where] = group["position"][of_word] + 1 + offset
    if positions == "flat":
        of_trunk, of_branches = _inserted(placed, trunk)
        grown["position"][:, :trunk] += of_trunk * (group["segment"] > 0)
        grown["position"][where] += of_branches[branch]
    used = grown["segment"] > 0
    if visible == "all":
        low2, reach2 = _no_second_interval(used)
        none = np.zeros(used.shape, np.int64)
        seen = dict.fromkeys(("rank", "reach", "low"), none)
        seen |= {"low2": low2, "reach2": reach2}
    else:
        seen = _tree_arrays(used, branches, placed, trunk)
    return {name: array.astype(np.int32) for name, array in (grown | seen).items()}


def _place(
    group: Mapping[str, np.ndarray], branches: Branches, vocab: VocabInfo, room: int
) -> PlacedBranches:
    """The branches of the words of rows that fit in `room` more columns."""
    token, starts = group["token"], vocab.starts_word
    is_start = np.ones_like(token, bool) if starts is None else starts[token]
    is_start |= vocab.is_special[token]
    columns = 1 + np.arange(token.shape[1])
    num_tokens = np.max(np.where(group["segment"] > 0, columns, 0), axis=1)
    flags = np.where(is_start, WORD, 0).astype(np.uint8)
    entry = lexicons.match(
        token, flags, num_tokens, branches.heads, eos_id=vocab.eos_id
    )
    row, column = np.nonzero(entry >= 0)
    head = entry[row, column]
    item, nth = np.nonzero(branches.size[head] > 0)
    row, column, head = row[item], column[item], head[item]
    size = branches.size[head, nth].astype(np.int64)
    end = np.cumsum(size)
    end -= (end - size)[np.searchsorted(row, row)]
    fits = end <= room
    item, row, column, head, nth, size, end = (
        each[fits] for each in (item, row, column, head, nth, size, end)
    )
    first = np.searchsorted(row, row)  # the row's first branch
    count = np.cumsum(np.append(True, np.diff(item) > 0)[: len(item)])
    word = count - count[first] + 1
    num_words = np.zeros(len(token), np.int64)
    np.maximum.at(num_words, row, word)
    return PlacedBranches(
        row=row,
        item=item,
        head=head,
        nth=nth,
        first=column,
        last=column + branches.heads.size[head] - 1,
        size=size,
        end=end,
        word=word,
        rank=num_words[row] + np.arange(len(row)) - first + 1,
        num_words=num_words,
    )


def _inserted(placed: PlacedBranches, trunk: int) -> tuple[np.ndarray, np.ndarray]:
    """How many tokens of branches flat positions count before others.

    Returns:
      [B, trunk] before each token of the trunk, and [N] int32 before each branch.
    """
    inserted = np.zeros((len(placed.num_words), trunk + 1), np.int64)
    np.add.at(inserted, (placed.row, placed.last + 1), placed.size)
    before = np.cumsum(inserted, axis=1)
    begin = placed.end - placed.size
    of_word = begin - begin[np.searchsorted(placed.item, placed.item)]
    of_branches = before[placed.row, placed.last] + of_word
    return before[:, :-1], of_branches.astype(np.int32)


def _tree_arrays(
    used: np.ndarray, branches: Branches, placed: PlacedBranches, trunk: int
) -> dict[str, np.ndarray]:
    """Rank, reach and INTERVAL_ARRAYS [B, L]; `used` [B, L] says what is no padding."""
    in_trunk = used & (np.arange(used.shape[1]) < trunk)
    rank, low = np.zeros(used.shape, np.int64), np.zeros(used.shape, np.int64)
    reach = np.where(in_trunk, placed.num_words[:, None], 0)
    low2, reach2 = _no_second_interval(in_trunk)
    branch, offset = _each(branches.heads.size[placed.head])
    where = placed.row[branch], placed.first[branch] + offset
    rank[where] = placed.word[branch]
    np.minimum.at(low2, where, placed.rank[branch])
    np.maximum.at(reach2, where, placed.rank[branch])
    branch, where = placed.columns(trunk)
    rank[where] = low[where] = reach[where] = placed.rank[branch]
    low2[where] = reach2[where] = placed.word[branch]
    return {"rank": rank, "reach": reach, "low": low, "low2": low2, "reach2": reach2}


def _no_second_interval(used: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """low2 and reach2 of tokens [B, L] that attend to one interval."""
    return np.where(used, 1 << 20, 0), np.where(used, -1, 0)


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
