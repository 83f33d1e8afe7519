"""Rows of a batch as text: what is hidden, what is scored, who attends to whom."""

import html
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from launch.reports import picture_views
from research.contract.batch import (
    INPUT_ARRAYS,
    INTERVAL_ARRAYS,
    SCORED_ARRAYS,
    attention_mask,
    input_group,
)
from research.data.tokenize.vocabulary import Vocabulary
from research.objectives.layout.row_notes import RowNotes

# L positions, K scored positions, D positions whose attention is drawn

HIDDEN, REPLACED, KEPT, NEXT, PLAIN = "hidden", "replaced", "kept", "next", ""
MEANINGS = {
    HIDDEN: "the network reads a special token here, and predicts the text's token",
    REPLACED: "the network reads another token here, and predicts the text's token",
    KEPT: "the network reads the text's token here, and predicts it",
    NEXT: "the network predicts the next token here",
}
"""State of a scored position -> what it means."""
SIGNS = {"▁": "▁ is a space", "\n": "⏎ ends a line", "<0x": "<0xB4> is a byte"}
"""Characters in a text -> their explanation on the page."""
SPACES = "a predicted token has a space before it where the text has one"
ANSI = {HIDDEN: "30;43", REPLACED: "30;41", KEPT: "30;42", NEXT: "4", PLAIN: "2"}
COLOURS = {HIDDEN: "#ffe08a", REPLACED: "#f7a8a8", KEPT: "#b5e3b5", NEXT: "#d5e3f7"}
MAX_POSITIONS = 40
"""Positions of a row whose attention is drawn."""
PATTERNS = {
    "self": "Each position reads only itself.",
    "causal": "Each token reads itself and those before it.",
    "full": "Each position reads the whole row.",
    "general": "Which positions a position reads is drawn below.",
}
"""`Objective.pattern` in words."""
MAX_VALUES = 8
"""Number of values of another array that are shown."""
LETTERS = {"1 to 3": 3, "4 to 6": 6, "7 or more": 10**6}
"""Name of a class of word lengths -> its largest number of letters."""


class Token(NamedTuple):
    """A position that the network reads."""

    text: str
    state: str  # one of MEANINGS, or PLAIN where nothing is scored
    target: str  # the token that is predicted there; "": none
    weight: float  # in the loss
    own: str = ""  # the text's token there; "": a special or an unknown token
    starts_word: bool = False


class Group(NamedTuple):
    """An input of the network, such as the encoder's."""

    name: str  # "" if it is the only input
    tokens: list[Token]
    attends: np.ndarray  # [D, D] bool: query (row) to key (column)
    drawn: Sequence[int]  # [D], the tokens of these rows and columns


class Row(NamedTuple):
    """A row of a batch."""

    before: str  # the text that was corrupted; "": it is not known
    groups: list[Group]
    others: dict[str, str]  # name -> values, of arrays that no group shows
    notes: Mapping[str, Sequence[str]] = {}  # title -> lines from the objective
    tree: Sequence[tuple[str, Sequence[str]]] = ()  # words, and branches of each
    panel: picture_views.Panel | None = None  # if the row has pictures
    size: int = 0  # tokens of the text that was corrupted; 0: it is not known


def view(
    batch: Mapping[str, np.ndarray],
    number: int,
    vocabulary: Vocabulary,
    *,
    before: Sequence[int] = (),
    labels: Sequence[str] = (),
    of_words: bool = False,
    objective: Any = None,
) -> Row:
    """A row of a batch.

    Args:
      number: of the row.
      before: the tokens of its text.
      labels: the names of `label`, if the text has classes.
      of_words: whether the targets are labels.
      objective: it made the batch; its `notes` of the row are shown.
    """
    prefixes = [
        name.removesuffix("token")
        for name in batch
        if name.endswith("token") and f"{name.removesuffix('token')}segment" in batch
    ]
    known = RowNotes()
    if objective is not None:
        one = {name: np.asarray(array)[number] for name, array in batch.items()}
        known = objective.notes(one, vocabulary)
    groups, shown = [], {"example"}
    for prefix in prefixes:
        inputs = input_group(batch, prefix)
        scores = _scores_of(batch, prefix, prefixes)
        shown |= {f"{prefix}{name}" for name in (*INPUT_ARRAYS, *INTERVAL_ARRAYS)}
        row = {name: array[number : number + 1] for name, array in inputs.items()}
        of_row = {
            name: batch[f"{scores}{name}"][number]
            for name in SCORED_ARRAYS
            if scores is not None and f"{scores}{name}" in batch
        }
        if scores is not None:
            shown |= {f"{scores}{name}" for name in SCORED_ARRAYS}
        names = labels if of_words else ()
        tokens = _tokens(row, of_row, vocabulary, names)
        order = np.arange(len(tokens))
        if known.order is not None and not prefix:
            order = np.array(known.order)
        kept = order[row["segment"][0][order] > 0]
        groups.append(group(prefix.rstrip("_"), [tokens[n] for n in kept], row, kept))
    others = {
        name: _values(array[number])
        for name, array in batch.items()
        if name not in shown and isinstance(array, np.ndarray)
    }
    if labels and "label" in others and batch["label"].dtype == np.int32:
        others["label"] = labels[int(batch["label"][number])]
    text = vocabulary.decode([*before]) if len(before) else ""
    size = sum(bool(_of_text(token, vocabulary)[0]) for token in before)
    return Row(text, groups, others, known.lines, known.tree, size=size)


def group(
    name: str, tokens: list[Token], row: Mapping[str, np.ndarray], kept: np.ndarray
) -> Group:
    """The group of some positions of a row.

    The attention of the first positions is drawn. If none of them is scored, for
    example because queries follow the text, half are the last positions.

    Args:
      tokens: the tokens at `kept`.
      row: its input arrays, [1, L] each.
      kept: the positions of the group.
    """
    drawn = np.arange(len(kept))
    if len(kept) > MAX_POSITIONS:
        half = MAX_POSITIONS // 2
        is_scored = any(token.state for token in tokens[:MAX_POSITIONS])
        ends = np.concatenate([drawn[:half], drawn[-half:]])
        drawn = drawn[:MAX_POSITIONS] if is_scored else ends
    at = kept[drawn]
    attends = np.asarray(attention_mask(row))[0][np.ix_(at, at)]
    return Group(name, tokens, attends, drawn.tolist())


def attention_title(group: Group) -> str:
    """The name of the input, and the number of its positions shown if not all are."""
    name = f" of the {group.name}" if group.name else ""
    shown, count = len(group.drawn), len(group.tokens)
    return name + (f" ({shown} of {count} positions shown)" if shown < count else "")


def _scores_of(
    batch: Mapping[str, np.ndarray], prefix: str, prefixes: Sequence[str]
) -> str | None:
    """The prefix of the arrays with a group's targets; None: nothing is scored."""
    if f"{prefix}target" in batch:
        return prefix
    is_decoder = prefix == "decoder_" and "" not in prefixes
    return "" if is_decoder and "target" in batch else None


def _tokens(
    row: Mapping[str, np.ndarray],
    scores: Mapping[str, np.ndarray],
    vocabulary: Vocabulary,
    names: Sequence[str],
) -> list[Token]:
    """The positions up to the last one that is not padding."""
    token, segment = row["token"][0], row["segment"][0]
    length = int(np.flatnonzero(segment > 0).max(initial=-1)) + 1
    targets: dict[int, tuple[int, float]] = {}
    if "target" in scores:
        at = scores.get("scored", np.arange(len(scores["target"])))
        weight = scores.get("weight", np.ones(len(scores["target"])))
        for position, target, value in zip(at, scores["target"], weight, strict=False):
            if value > 0:
                targets[int(position)] = int(target), float(value)
    special, found = vocabulary.vocab.is_special, []
    inner = [(n, target) for n, (target, _) in targets.items() if n + 1 < length]
    follow = sum(token[n + 1] == target for n, target in inner)
    of_next = follow > len(inner) / 2
    for position in range(length):
        own = int(token[position])
        text = piece_name(own, vocabulary)
        if position not in targets:
            found.append(Token(text, PLAIN, "", 0.0, *_of_text(own, vocabulary)))
            continue
        target, weight = targets[position]
        if names:
            known = _of_text(own, vocabulary)
            found.append(Token(text, KEPT, names[target], weight, *known))
            continue
        state = REPLACED
        if of_next:
            state = NEXT
        elif own == target:
            state = KEPT
        elif own >= len(special) or special[own]:
            state = HIDDEN
        name = piece_name(target, vocabulary)
        known = _of_text(own if state == NEXT else target, vocabulary)
        found.append(Token(text, state, name, weight, *known))
    return found


def _of_text(token: int, vocabulary: Vocabulary) -> tuple[str, bool]:
    """`own` and `starts_word` of a token that a text has."""
    special, starts = vocabulary.vocab.is_special, vocabulary.vocab.starts_word
    if token >= len(vocabulary.model.pieces) or special[token]:
        return "", False
    return vocabulary.piece_text(token), starts is None or bool(starts[token])


def piece_name(token: int, vocabulary: Vocabulary) -> str:
    """The text of a token; a special token's name; for an unknown id, the id."""
    if token < len(vocabulary.model.pieces):
        text = vocabulary.piece_name(token)
        if not text.strip():
            return text.replace(" ", "▁").replace("\n", "⏎")
        return text
    sentinels = [*vocabulary.vocab.sentinel_ids]
    if token in sentinels:
        return f"<{sentinels.index(token)}>"
    return f"<{token}>"


def _values(array: np.ndarray) -> str:
    values = np.ravel(array)
    shown = ", ".join(f"{value:.4g}" for value in values[:MAX_VALUES].tolist())
    more = f", ... of shape {array.shape}" if len(values) > MAX_VALUES else ""
    return shown + more


def as_text(row: Row, *, colours: bool, width: int = 100) -> str:
    """A row for the terminal; without colours a scored token is [state: a → b]."""
    lines = []
    if row.before:
        lines += ["the text", *_wrapped(row.before, width)]
    for group in row.groups:
        title = f"the {group.name or 'network'} reads"
        words = [_marked(token, colours) for token in group.tokens]
        lines += [title, *_wrapped("".join(words), width, colours=colours)]
        scored = sum(token.state != PLAIN for token in group.tokens)
        lines.append(f"  {scored} of these {len(group.tokens)} tokens are predicted")
    for title, found in row.notes.items():
        lines += [title, *(f"  {line}" for line in found)]
    if row.panel:
        lines += picture_views.panel_lines(row.panel)
    if row.others:
        lines.append("further arrays of the row")
        lines += [f"  {name}: {value}" for name, value in row.others.items()]
    return "\n".join(lines)


class _Shown(NamedTuple):
    """The parts of a token as shown: white space, token read, token predicted."""

    space: str
    text: str
    target: str


def _shown(token: Token) -> _Shown:
    """The token with the space before it: the text's space, not one of a mask.

    A space that is itself a token is shown by its sign only within brackets.
    """
    text, target = (each.replace("\n", "⏎") for each in (token.text, token.target))
    if token.state in (PLAIN, NEXT) and not text.strip("▁"):
        return _Shown(" " * len(text), "", "")
    of_text = target if token.state in (HIDDEN, REPLACED) else text
    space = of_text[: len(of_text) - len(of_text.lstrip())]
    return _Shown(space, text.lstrip(), target.lstrip())


def _marked(token: Token, colours: bool) -> str:
    space, text, target = _shown(token)
    if colours:
        arrow = "" if token.state in (PLAIN, KEPT, NEXT) else f"→{target}"
        return f"{space}\x1b[{ANSI[token.state]}m{text}{arrow}\x1b[0m"
    if token.state in (PLAIN, NEXT):
        return f"{space}{text}"
    return f"{space}[{token.state}: {text} → {target}]"


def _wrapped(text: str, width: int, *, colours: bool = False) -> list[str]:
    indent = "  "
    if colours:  # the codes of colours have no width
        return [indent + text]
    lines = textwrap.wrap(text, width, initial_indent=indent, subsequent_indent=indent)
    return lines or [indent + "(nothing)"]


def attention_text(group: Group) -> str:
    """The attention mask: a line for each query, # for a key that it reads."""
    tokens = [group.tokens[n] for n in group.drawn]
    width = max((len(t.text.strip()) for t in tokens), default=0)
    return "\n".join(
        f"  {token.text.strip():>{min(width, 14)}.14}  "
        + "".join("#" if key else "." for key in keys)
        for token, keys in zip(tokens, group.attends, strict=True)
    )


def meanings(rows: Sequence[Row]) -> dict[str, str]:
    """State -> its meaning, for the states in these rows."""
    states = {token.state for row in rows for g in row.groups for token in g.tokens}
    return {state: text for state, text in MEANINGS.items() if state in states}


def signs(rows: Sequence[Row]) -> list[str]:
    """The meanings of the signs for spaces, lines and bytes in these rows."""
    tokens = [token for row in rows for group in row.groups for token in group.tokens]
    seen = "".join(token.text + token.target for token in tokens)
    lines = [text for sign, text in SIGNS.items() if sign in seen]
    predicted = [token for token in tokens if token.state in (HIDDEN, REPLACED)]
    spaces = {bool(_shown(token).space) for token in predicted}
    return [SPACES, *lines] if len(spaces) == 2 else lines


def hidden_lines(rows: Sequence[Row]) -> list[str]:
    """The fractions of hidden tokens, and of predicted words by their length.

    For an encoder whose tokens are not predicted: the fraction of the text that it
    reads. No lines if no token is hidden or replaced, as in next-token prediction.
    """
    lines = []
    for name in dict.fromkeys(group.name for row in rows for group in row.groups):
        groups = [group for row in rows for group in row.groups if group.name == name]
        tokens = [token for group in groups for token in group.tokens if token.own]
        states = Counter(token.state for token in tokens)
        if states[HIDDEN] + states[REPLACED]:
            found = (
                f"{states[state]} {state} ({100 * states[state] / len(tokens):.1f} %)"
                for state in (HIDDEN, REPLACED, KEPT)
                if states[state]
            )
            where = f"of the {name}'s" if name else "of the text's"
            lines.append(f"{where} {len(tokens)} tokens: {', '.join(found)}")
            lines += _word_lines([word for group in groups for word in _words(group)])
        elif name == "encoder" and (size := sum(row.size for row in rows)):
            share = f"({100 * len(tokens) / size:.1f} %)"
            lines.append(
                f"the encoder reads {len(tokens)} of the text's {size} tokens {share}"
            )
    return lines


def _words(group: Group) -> Iterator[list[Token]]:
    """The tokens of each word, without those that have no letters or digits."""
    word: list[Token] = []
    for token in group.tokens:
        if token.starts_word or not token.own:
            yield word
            word = []
        if any(map(str.isalnum, token.own)):
            word.append(token)
    yield word


def _word_lines(words: Sequence[list[Token]]) -> list[str]:
    """The number of predicted words by length, and how many as a whole."""
    counts = {name: [0, 0] for name in LETTERS}
    whole = []
    for word in filter(None, words):
        scored = [token.state != PLAIN for token in word]
        letters = sum(map(str.isalnum, "".join(token.own for token in word)))
        name = next(name for name, most in LETTERS.items() if letters <= most)
        counts[name][0] += any(scored)
        counts[name][1] += 1
        if any(scored) and len(word) > 1:
            whole.append(all(scored))
    found = (
        f"{name}: {some} of {count} ({100 * some / count:.0f} %)"
        for name, (some, count) in counts.items()
        if count
    )
    lines = [f"words predicted as a whole or in part, by letters: {'; '.join(found)}"]
    if whole:
        lines.append(
            f"{len(whole)} of these words have several tokens: {sum(whole)} predicted "
            f"as a whole, {len(whole) - sum(whole)} in part"
        )
    return lines if sum(count for _, count in counts.values()) > 1 else []


def as_html(title: str, intro: str, rows: Sequence[Row]) -> str:
    """A page with rows in colour, and the attention of the first row."""
    legend = "; ".join(
        f'<span style="background:{COLOURS[state]}">{state}</span> {html.escape(text)}'
        for state, text in meanings(rows).items()
    )
    legend += "".join(f"; {html.escape(text)}" for text in signs(rows))
    parts = [f"<p>{html.escape(intro)}</p>", f"<p>{legend}</p>"]
    for number, row in enumerate(rows, 1):
        parts.append(f"<h2>Row {number}</h2>")
        if row.before:
            parts.append(f"<p><b>the text</b> {html.escape(row.before)}</p>")
        for group in row.groups:
            title_of = f"the {group.name or 'network'} reads"
            tokens = "".join(map(_html_token, group.tokens))
            parts.append(f"<p class=row><b>{title_of}</b> {tokens}</p>")
        parts += _html_notes(row)
        if row.panel:
            parts.append(picture_views.panel_html(row.panel))
        if row.others:
            items = (
                f"<tr><td>{html.escape(name)}</td><td>{html.escape(value)}</td></tr>"
                for name, value in row.others.items()
            )
            parts.append("<p><b>further arrays of the row</b></p>")
            parts.append(f"<table>{''.join(items)}</table>")
        if number == 1:
            parts += [_html_attention(group) for group in row.groups]
    parts += [f"<p>{html.escape(line)}</p>" for line in hidden_lines(rows)]
    body = "\n".join(parts)
    return PAGE.format(title=html.escape(title), body=body)


def _html_notes(row: Row) -> list[str]:
    """The sentence tree, or else the notes."""
    if row.tree:
        words = "".join(
            f"<span class=word>{html.escape(word)}"
            + "".join(f"<span>{html.escape(branch)}</span>" for branch in branches)
            + "</span>"
            for word, branches in row.tree
        )
        title = "<p><b>sentence tree</b> branches stand below their words</p>"
        return [title, f"<div class=tree>{words}</div>"]
    parts = []
    for title, lines in row.notes.items():
        items = "".join(f"<li>{html.escape(line)}</li>" for line in lines)
        parts.append(f"<p><b>{html.escape(title)}</b></p><ul>{items}</ul>")
    return parts


def _html_token(token: Token) -> str:
    space, text, target = _shown(token)
    text = html.escape(text).replace("⏎", "⏎<br>")
    if token.state == PLAIN:
        return f"{space}<span class=plain>{text}</span>"
    hint = f"{token.state}: {target}, weight {token.weight:.3g}"
    arrow = ""
    if token.state in (HIDDEN, REPLACED) or token.target.strip() != token.text.strip():
        arrow = f"<sub>{html.escape(target)}</sub>"
    if token.state == NEXT:
        arrow = ""
    colour = COLOURS[token.state]
    return (
        f'{space}<span style="background:{colour}" title="{html.escape(hint)}">{text}'
        f"{arrow}</span>"
    )


def _html_attention(group: Group) -> str:
    size, side = len(group.attends), 11
    cells = "".join(
        f'<rect x="{side * key}" y="{side * query}" width="{side - 1}" '
        f'height="{side - 1}" fill="#4a6fa5"/>'
        for query, key in np.argwhere(group.attends).tolist()
    )
    labels = "".join(
        f'<text x="{side * size + 4}" y="{side * query + 9}" fill="#555">'
        f"{html.escape(token.text.strip()[:16])}</text>"
        for query, token in enumerate(group.tokens[n] for n in group.drawn)
    )
    return (
        f"<h3>Attention{attention_title(group)}</h3><p>Each line is a position, "
        "and each square a position that it reads.</p>"
        f'<svg width="{side * size + 140}" '
        f'height="{side * size + 4}">{cells}{labels}</svg>'
    )


PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>
body {{ font: 15px/1.7 system-ui, sans-serif; max-width: 60em; margin: 2em auto;
  padding: 0 1em; color: #222; }}
.row {{ white-space: pre-wrap; font-family: ui-monospace, monospace; }}
.row b, b {{ font-family: system-ui, sans-serif; margin-right: 1em; color: #666; }}
.row span {{ padding: 1px 0; border-radius: 3px; }}
.plain {{ color: #777; }}
sub {{ color: #333; font-size: 75%; }}
td {{ padding: 0 1em 0 0; vertical-align: top; font-family: ui-monospace, monospace;
  font-size: 85%; color: #555; }}
.tree {{ display: flex; flex-wrap: wrap; gap: 6px 8px; margin: 0 0 1em; }}
.word {{ display: flex; flex-direction: column; align-items: flex-start; }}
.word span {{ border-left: 2px solid #4a6fa5; padding-left: 6px; margin-left: 6px;
  font-size: 85%; color: #4a6fa5; }}
.pictures {{ display: flex; flex-wrap: wrap; gap: 1em; }}
figure {{ margin: 0; }}
figcaption {{ font-size: 80%; color: #555; max-width: 16em; }}
svg text {{ font: 9px ui-monospace, monospace; }}
</style></head><body><h1>{title}</h1>
{body}
</body></html>
"""
