"""The knowledge that rows of a batch hold beside their tokens, as lines and a tree."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from research.data.tokenize.vocabulary import Vocabulary
from research.objectives.knowledge import entities, polarity, sentence_tree

# L positions, M mentions of a row

MAX_CANDIDATES = 5


class Notes(NamedTuple):
    """Knowledge of one row."""

    lines: dict[str, list[str]]  # title -> lines
    order: list[int] | None = None  # columns as they are drawn; None: as they are
    tree: list[tuple[str, list[str]]] = []  # noqa: RUF012 (words and their branches)


def notes(
    objective: Any, row: Mapping[str, np.ndarray], vocabulary: Vocabulary
) -> Notes:
    """The knowledge that an objective of the family knowledge adds to a row.

    Args:
      row: name -> array of the row, without the leading B.
    """
    reader = READERS.get(objective.name)
    return reader(objective, row, vocabulary) if reader else Notes({})


def _names(objective: Any) -> Callable[[int], str]:
    """Number of a name -> its text and entities, of names.tsv beside the table."""
    path = Path(objective.entities).parent / "names.tsv"
    if not path.is_file():
        return lambda number: f"name {number}"
    rows = [line.split("\t") for line in path.read_text("utf-8").splitlines()]

    def spell(number: int) -> str:
        text, *found = rows[number]
        more = f" and {len(found) - MAX_CANDIDATES} more"
        shown = ", ".join(found[:MAX_CANDIDATES])
        return f"{text} ({shown}{more if len(found) > MAX_CANDIDATES else ''})"

    return spell


def _linked(objective: Any, row: Mapping, vocabulary: Vocabulary) -> Notes:
    """Each mention with its entities, and the name that is read if it is another."""
    is_span = "span_name" in row
    first = row["span_start" if is_span else "mention"]
    read = row["span_name" if is_span else "mention_read"]
    used = row["span_segment"] > 0 if is_span else row["mention_name"] > 0
    spell, lines = _names(objective), []
    for slot in np.flatnonzero(used):
        line = f"position {first[slot]}: "
        if is_span:
            tokens = row["token"][first[slot] : row["span_end"][slot] + 1].tolist()
            line += f"[{vocabulary.decode(tokens).strip()}] reads "
        else:
            line += f"{spell(row['mention_name'][slot])}, reads "
        if read[slot] == entities.MASK:
            line += "the mask's entity"
        elif read[slot] == entities.NONE:
            line += "none"
        elif not is_span and read[slot] == row["mention_name"][slot]:
            line += "it"
        else:
            line += spell(read[slot])
        lines.append(line)
    return Notes({"linked entities": lines or ["none"]})


def _tree(objective: Any, row: Mapping, vocabulary: Vocabulary) -> Notes:
    """The sentence tree, with each branch after its word."""
    tree = sentence_tree.read_tree(row)

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
    return Notes({"branches": lines or ["none"]}, order, words)


def _triple(objective: Any, row: Mapping, vocabulary: Vocabulary) -> Notes:
    """The triple of a row, and those that are false."""
    segment, token = row["entity_segment"], row["entity_token"]
    texts = [
        vocabulary.decode(token[segment == n].tolist()).strip()
        for n in range(1, 1 + objective.num_descriptions)
    ]
    triples = vocabulary.vocab.lexicon.triples
    kind = int(row["relation"])
    size = triples.relation_size[kind]
    relation = vocabulary.decode(triples.relation_token[kind, :size].tolist()).strip()
    head, tail, *false = texts
    heads, tails = false[: objective.negatives], false[objective.negatives :]
    lines = [f"{head} — {relation} → {tail}"]
    lines += [f"false: {other} — {relation} → {tail}" for other in heads]
    lines += [f"false: {head} — {relation} → {other}" for other in tails]
    return Notes({"triple": lines})


def _polarities(objective: Any, row: Mapping, vocabulary: Vocabulary) -> Notes:
    """Words whose polarity is read, and what is read of the text's label."""
    lines = [
        f"position {n}: {vocabulary.decode([int(row['token'][n])]).strip()}, "
        f"{polarity.POLARITIES[row['word_polarity'][n]]}"
        for n in np.flatnonzero(row["word_polarity"] != polarity.NEUTRAL)
    ]
    found = {"polarities that are read": lines or ["none"]}
    if "label_weight" in row:
        level = int(row["level"][0])
        is_read = level < objective.levels
        found["label of the text"] = [
            f"{level} is read at each token" if is_read else "is predicted, or unknown"
        ]
    return Notes(found)


READERS: dict[str, Callable[..., Notes]] = {
    "ernie_thu": _linked,
    "knowbert": _linked,
    "kbert": _tree,
    "kepler": _triple,
    "sentilare": _polarities,
}
"""Objective -> the function that reads its rows."""
