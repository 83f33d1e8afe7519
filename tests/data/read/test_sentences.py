"""Sentences start at the right units, and units hold all of a text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from research.data.read.sentences import (
    ENDS,
    JOINED,
    OPENS,
    sentence_traits,
    split_units,
)


def sentences(text):
    """The sentences of a text, computed from the traits of its units."""
    found, before = [], 0
    for unit in split_units(text):
        traits = sentence_traits(unit)
        if not found or (before & ENDS and traits & OPENS):
            found.append("")
        joined = unit.startswith(JOINED) or not found[-1]
        found[-1] += ("" if joined else " ") + unit.removeprefix(JOINED)
        before = traits
    return found


@pytest.mark.parametrize(
    "text",
    [
        "It works. |Does it? |Yes!",
        "He said “stop.” |“Why?” she asked. |(Nobody knew.) |Then 3 more came.",
        "Dr. Smith met J. R. Hartley of the U.S. Army. |They left, e.g. by car.",
        "See Fig. 3 and pp. 4-7. |All of vol. 2 is lost... |Really?! |Yes.",
        "version 3.5 of it, i.e. the last one",
        "我喜欢你。|你呢？|“我也是。”|他说！|好",
        "他说 OK。 |Then “三月。”|四月",
        "«Bien.» |Il part.",
        '"Why?" she said. |Because.',
        "approx. five etc. and no. four",
    ],
)
def test_sentences_start_where_a_reader_marks_them(text):
    assert sentences(text.replace("|", "")) == [s.strip() for s in text.split("|")]


@given(st.text(st.sampled_from("ab. !?。！？”’ \n\t中文\x1f")) | st.text())
def test_units_rebuild_the_text_up_to_white_space(text):
    rebuilt = " ".join(split_units(text)).replace(" " + JOINED, "")
    assert rebuilt == " ".join(text.split())
    assert all(unit.removeprefix(JOINED) for unit in split_units(text))
