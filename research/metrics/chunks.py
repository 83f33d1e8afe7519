"""Precision, recall and F1 of chunks, in all texts together (seqeval).

A tag is a letter and a type (B-PER, PER-B, B_PER), or a letter alone: B begins a chunk,
I or M is inside, E or L ends it, S, U or W is a chunk of one word, O is outside. With
single words, or with B beside E, a chunk counts if it is whole and of one type
(seqeval's mode strict; IOBES, BILOU, BMES, BMEWO). Of B and I, and of I and E, chunks
are counted as conlleval counts them (IOB1, IOB2, IOE). Without a right (or predicted)
chunk a fraction of these is 0.
"""

import dataclasses
import functools
import re
from collections.abc import Callable, Iterable, Sequence

from research import metrics
from research.contract.notices import report
from research.metrics import Item, Value

ROLES = {"B": "B", "I": "I", "M": "I", "E": "E", "L": "E", "S": "S", "U": "S", "W": "S"}
"""Letter -> the letter of IOBES that means the same."""
OUTSIDE = "O"
FORMS = tuple(
    re.compile(pattern.replace("X", f"(?P<letter>[{''.join(ROLES)}])"), re.DOTALL)
    for pattern in (
        "X-(?P<type>.+)",
        "(?P<type>.+)-X",
        "X_(?P<type>.+)",
        "(?P<type>.+)_X",
        "X",
    )
)
"""How tags may be spelled; all of a text are spelled alike."""
LENIENT = ({"B", "I"}, {"I", "E"})
"""Letters of the schemes that conlleval counts."""
UNDEFINED = "no right tag is of a chunk, such as B-PER of the scheme IOB"


@dataclasses.dataclass(frozen=True)
class Metric(metrics.Metric):
    kinds = ("tags",)
    values = tuple(
        Value(name, undefined=UNDEFINED) for name in ("precision", "recall", "f1")
    )

    def measure(self, items: Sequence[Item], labels: Sequence[str]) -> dict[str, float]:
        predictions, golds = metrics.columns(items)
        right = {tag for tags in golds for tag in tags}
        tags = right.union(labels, *predictions)
        spell = _scheme(frozenset(tags)) if right - {OUTSIDE} else None
        if spell is None:
            return {}
        import seqeval.metrics
        from seqeval.scheme import IOBES

        golds, predictions = (
            [[spell(tag) for tag in tags] for tags in column]
            for column in (golds, predictions)
        )
        letters = {spell(tag)[0] for tag in tags} - {OUTSIDE}
        rule = {"mode": "strict", "scheme": IOBES}
        if any(letters <= lenient for lenient in LENIENT):
            rule = {}
        names = [value.name for value in self.values]
        functions = [getattr(seqeval.metrics, f"{name}_score") for name in names]
        scores = [
            each(golds, predictions, zero_division=0, **rule) for each in functions
        ]
        return dict(zip(names, map(float, scores), strict=True))


def has_scheme(tags: Sequence[str], labels: Sequence[str]) -> bool:
    """Whether tags and labels are of a scheme of chunks, and not O alone."""
    found = frozenset([*tags, *labels])
    return bool(found - {OUTSIDE}) and _scheme(found) is not None


def chunks(tags: Sequence[str], labels: Sequence[str]) -> list[tuple[str, int, int]]:
    """Type, first word and last word of each chunk of a text, as conlleval finds them.

    Args:
      labels: all tags, which say how they are spelled.
    """
    spell = _scheme(frozenset([*tags, *labels]))
    if spell is None:
        return []
    from seqeval.metrics.sequence_labeling import get_entities

    return [*get_entities([spell(tag) for tag in tags])]


@functools.cache
def _scheme(tags: frozenset[str]) -> Callable[[str], str] | None:
    """Tag -> the same tag as IOBES spells it; None: the tags are of no scheme.

    Reports it if some of the tags look like those of a scheme.
    """
    inside = sorted(tags - {OUTSIDE})
    for form in FORMS:
        found = [form.fullmatch(tag) for tag in inside]
        letters = {match["letter"] for match in found if match}
        if not all(found) or len({ROLES[each] for each in letters}) < len(letters):
            continue
        spelled = {
            tag: f"{ROLES[match['letter']]}-{match.groupdict().get('type', '_')}"
            for tag, match in zip(inside, found, strict=True)
            if match
        }
        return lambda tag: spelled.get(tag, OUTSIDE)
    if like := _first_of(FORMS[0], inside) or _first_of(FORMS[1], inside):
        others = [tag for tag in inside if not any(f.fullmatch(tag) for f in FORMS)]
        report(
            f"no F1 of chunks: tags such as {like} and {(others or inside)[-1]} are of "
            "no scheme; known: B, I and O, with E and S, L and U, or M, E and S"
        )
    return None


def _first_of(form: re.Pattern[str], tags: Iterable[str]) -> str:
    return next(filter(form.fullmatch, tags), "")
