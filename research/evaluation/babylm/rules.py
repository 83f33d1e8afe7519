"""The two rule sets of the evaluation, and the checkpoints that the tracks name."""

import dataclasses
import re
from collections.abc import Sequence

from research.contract.errors import UserError, unknown

MAIN = "main"
"""The revision of the last checkpoint."""

MILLION = 10**6
UNITS = {"M": MILLION, "K": 10**3, "": 1}


@dataclasses.dataclass(frozen=True)
class Rules:
    """What all tasks read of the pipelines of 2025 and of 2026.

    These are babylm-org/babylm-eval at 45fe2c1 and at 3d57ddc. What differs in one task
    is in its file, by `year`.
    """

    name: str
    year: int
    ties: str  # first: the first of equal candidates, which is the right one in all
    # tasks but Global PIQA; random: one that is drawn
    pooled: str  # the token that fine-tuning reads: first or last


RULES = {
    rules.name: rules
    for rules in (
        Rules("babylm_2025", year=2025, ties="first", pooled="first"),
        Rules("babylm_2026", year=2026, ties="random", pooled="last"),
    )
}

TRACKS = {"strict_small": 100, "strict": 1000}
"""Track -> the millions of words that may be seen: ten epochs of 10 and 100 million."""


def find_rules(name: str) -> Rules:
    """Raises UserError: there are no rules of this name."""
    if name not in RULES:
        raise unknown("--rules", name, RULES)
    return RULES[name]


def checkpoint_words(most: int) -> list[int]:
    """The words seen by the checkpoints of a track.

    They are every million up to 10, every 10 million up to 100, every 100 million up to
    `most` (strict-small: 19 checkpoints, strict: 28).
    """
    millions = [*range(1, 10), *range(10, 100, 10), *range(100, 1001, 100)]
    return [million * MILLION for million in millions if million * MILLION <= most]


def checkpoint_name(words: int) -> str:
    """The revision of a checkpoint after this many words, such as chck_10M."""
    unit, size = next((u, s) for u, s in UNITS.items() if words % s == 0)
    return f"chck_{words // size}{unit}"


def checkpoint_number(name: str) -> int | None:
    """The words seen by a revision; None: it is not a checkpoint."""
    found = re.fullmatch(r"chck_(\d+)([MK]?)", name)
    return int(found[1]) * UNITS[found[2]] if found else None


def check_covered(names: Sequence[str], seen: int, what: str) -> None:
    """Checks that a model has all checkpoints up to the words that it has seen.

    Raises:
      UserError: names those that are missing.
    """
    wanted = [checkpoint_name(words) for words in checkpoint_words(seen)]
    if missing := [name for name in wanted if name not in names]:
        raise UserError(
            f"{what} has seen {seen:,} words but has no checkpoint "
            f"{', '.join(missing[:5])}{', ...' * (len(missing) > 5)}; train with "
            "train.checkpoint_words, or choose --checkpoints=main"
        )
