"""Rows of every objective are shown, with all positions that are scored."""

import numpy as np
import pytest

from launch.reports import row_views
from launch.runs import Shown
from tests.testing.example_batches import vocab, vocabulary
from tests.testing.objective_cases import FIRST, make_batch, make_objective

VOCAB = vocab()
VOCABULARY = vocabulary(VOCAB)


a, b, c, *_ = VOCAB.ordinary_ids.tolist()


@pytest.mark.parametrize(("name", "fields"), FIRST.values())
def test_a_row_shows_its_scored_positions_and_its_attention(name, fields):
    objective = make_objective(name, fields)
    _, batch = make_batch(objective, 32)
    options = {"before": [5, 6], "objective": objective}
    row = row_views.view(batch, 0, VOCABULARY, **options)
    text = row_views.as_text(row, colours=False)
    page = row_views.as_html("title", "intro", [row])
    assert text.startswith("the text\n  w5 w6\n")
    for group in row.groups:
        prefix = f"{group.name}_" if group.name else ""
        own = prefix if f"{prefix}target" in batch else ""
        is_scored = own == prefix or (prefix == "decoder_" and "token" not in batch)
        scored = [token for token in group.tokens if token.state]
        if is_scored and f"{own}target" in batch:
            weight = batch.get(f"{own}weight", np.ones_like(batch[f"{own}target"]))[0]
            at = batch.get(f"{own}scored", np.arange(len(weight))[None])[0]
            assert len(scored) == len({*at[weight > 0].tolist()})
        else:
            assert not scored
        assert group.attends.any() and len(group.attends) == len(group.drawn)
        inputs = batch[f"{prefix}segment"][0]
        assert len(group.tokens) == (inputs > 0).sum()
    for other in row.others:
        assert f"{other}: " in text and f"<td>{other}</td>" in page
    assert page.count("<svg") == len(row.groups)
    first = {array: values[0] for array, values in batch.items()}
    assert row.notes == objective.notes(first, VOCABULARY).lines
    for title, lines in row.notes.items():
        assert lines and all(f"\n  {line}\n" in f"{text}\n" for line in lines)
        assert title in page or "sentence tree" in page


@pytest.mark.parametrize(
    ("token", "target", "state"),
    [
        ([a, b, c], [b, c, a], ["next"] * 3),
        ([VOCAB.mask_id, a, b], [a, a, c], ["hidden", "kept", "replaced"]),
    ],
)
def test_states_of_scored_positions(token, target, state):
    ones, order = np.ones((1, 3), np.int32), np.arange(3, dtype=np.int32)[None]
    batch = {
        "token": np.array([token]),
        "target": np.array([target]),
        "weight": ones.astype(np.float32),
        "segment": ones,
        "position": order,
        "token_type": 0 * ones,
        "rank": order,
        "reach": order,
    }
    (group,) = row_views.view(batch, 0, VOCABULARY).groups
    assert [token.state for token in group.tokens] == state
    assert (group.attends == np.tri(3, dtype=bool)).all()


def test_what_is_hidden_is_counted_by_token_and_word():
    def token(own, state="", starts=None):
        starts = own.startswith(" ") if starts is None else starts
        return row_views.Token(own, state, own if state else "", 1.0, own, starts)

    special = row_views.Token("<s>", "", "", 0.0)
    tokens = [special, token(" a"), token(" long", "hidden"), token("est", "kept")]
    tokens += [token("."), token(" word", "replaced"), token("s"), special, token("in")]
    rows = [row_views.Row("", [row_views.Group("", tokens, np.eye(1), [0])], {})]
    assert row_views.hidden_lines(rows) == [
        "of the text's 7 tokens: 1 hidden (14.3 %), 1 replaced (14.3 %), 1 kept "
        "(14.3 %)",
        "words predicted as a whole or in part, by letters: 1 to 3: 0 of 2 (0 %); 4 to "
        "6: 1 of 1 (100 %); 7 or more: 1 of 1 (100 %)",
        "2 of these words have several tokens: 1 predicted as a whole, 1 in part",
    ]
    encoder = row_views.Group("encoder", [special, token(" a")], np.eye(1), [0])
    assert row_views.hidden_lines([row_views.Row("", [encoder], {}, size=4)]) == [
        "the encoder reads 1 of the text's 4 tokens (25.0 %)"
    ]
    following = [token(" a", "next"), token(" b", "next")]
    rows = [row_views.Row("", [row_views.Group("", following, np.eye(1), [0])], {})]
    assert row_views.hidden_lines(rows) == []


def test_spaces_are_those_of_the_text():
    def row_of(*tokens):
        tokens = [row_views.Token(*token, 1.0, token[2]) for token in tokens]
        return row_views.Row("", [row_views.Group("", tokens, np.eye(1), [0])], {})

    row = row_of(
        (" an", "", ""),
        ("▁", "", ""),
        ("old", "", ""),
        ("<mask>", "hidden", " riv"),
        ("<mask>", "hidden", "er"),
        (" to", "replaced", "s"),
        ("<mask>", "hidden", "▁"),
        (" is", "kept", " is"),
    )
    lines = row_views.as_text(row, colours=False, width=150).splitlines()
    assert lines[1] == (
        "   an old [hidden: <mask> → riv][hidden: <mask> → er][replaced: to → s]"
        "[hidden: <mask> → ▁] [kept: is → is]"
    )
    coloured = row_views.as_text(row, colours=True)
    assert "m<mask>→riv\x1b[0m\x1b[30;43m<mask>→er" in coloured
    page = row_views.as_html("", "", [row])
    assert "old</span> <span" in page and "<sub>riv</sub></span><span" in page
    assert row_views.signs([row]) == [row_views.SPACES, "▁ is a space"]
    assert row_views.SPACES in page
    shown = repr(Shown("mlm", [row, row])).splitlines()
    hidden = row_views.MEANINGS["hidden"]
    assert f"hidden: {hidden}" in shown and shown[-1] == "▁ is a space"
    assert any("hidden (" in line for line in shown)
    one_word = row_of(("<mask>", "hidden", " a"), ("<mask>", "hidden", " b"))
    assert row_views.signs([one_word]) == []


def test_of_a_long_row_the_queries_at_its_end_are_drawn_too():
    tokens = [row_views.Token("a", "", "", 0.0)] * 60
    hidden = row_views.Token("b", row_views.HIDDEN, "a", 1.0)
    order = np.arange(63, dtype=np.int32)[None]
    names = ("position", "token_type", "rank", "reach")
    row = dict.fromkeys(names, order) | {"segment": np.ones((1, 63), np.int32)}
    group = row_views.group("", [*tokens, hidden, hidden, hidden], row, order[0])
    assert group.drawn == [*range(20), *range(43, 63)]
    assert row_views.attention_title(group) == " (40 of 63 positions shown)"
    group = row_views.group("", [hidden, *tokens], row, order[0, :61])
    assert group.drawn == [*range(40)]
