"""The contract of every type of labels, found by listing the folder."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

from research.contract.errors import UserError
from research.data.documents import LABEL_SEPARATOR, Document, label_key, single_labels
from research.data.label_types import FOLDER, label_type
from research.data.rows import TextSpec
from research.data.source.labels import is_labelled, known_labels, no_labels

each_type = pytest.mark.parametrize("name", FOLDER.names())


def _index(kind, names, label=None):
    """The index of a text with these labels."""
    label = np.arange(len(names)) if label is None else label
    counts = np.bincount(label[label >= 0], minlength=len(names))
    return SimpleNamespace(
        label=label,
        stream=SimpleNamespace(
            label_names=names,
            arrays={kind.array: ()} if kind.array else {},
            count_labels=lambda array: counts,
        ),
    )


@each_type
def test_it_says_what_its_labels_are(name):
    cls = FOLDER.part_class(name, "type of labels")
    assert dataclasses.is_dataclass(cls) and not dataclasses.fields(cls)
    kind = TextSpec("document", 8, label=name).label_type
    assert kind == label_type(name) == cls()
    assert len({*kind.examples}) > 1 and kind.text
    assert no_labels(kind, "").startswith(kind.text)
    assert ("data.label" in no_labels(kind, "")) == kind.has_column


@each_type
def test_its_examples_are_read_in_one_order(name):
    """Any order of the text gives the same labels, of which none is lost."""
    kind = label_type(name)
    assert not any(map(kind.problem, kind.examples))
    found = [
        known_labels(kind, [index], [index], [], split, "label")
        for names in (kind.examples, kind.examples[::-1])
        for index in [_index(kind, names)]
        for split in ("", "valid")
    ]
    assert len({*found}) == 1 and not found[0].no_gold
    single = {label_key(each) for each in single_labels(kind.examples)}
    assert {label_key(each) for each in single_labels(found[0].known)} == single


@each_type
def test_what_it_does_not_read_is_refused_in_one_line(name):
    kind = label_type(name)
    strange = [n for n in ("", f"a{LABEL_SEPARATOR}b", "\0") if kind.problem(n)]
    for each in strange:
        index = _index(kind, [*kind.examples, each])
        with pytest.raises(UserError) as error:
            known_labels(kind, [index], [index], [], "", "label")
        assert kind.problem(each) in str(error.value)
        assert "\n" not in str(error.value)


@each_type
def test_a_text_without_labels_is_refused_by_its_name(name):
    kind = label_type(name)
    assert not is_labelled(kind, Document("a b"))
    index = _index(kind, [], np.full(3, -1))
    index.stream.arrays = {}
    with pytest.raises(UserError, match="the training text has no ") as error:
        known_labels(kind, [index], [index], [], "", "")
    assert kind.text in str(error.value)


@each_type
def test_a_label_that_says_there_is_none_is_no_label(name):
    """Whichever the type reads so: it is in no vocabulary."""
    kind = label_type(name)
    for mark in ("-", "-1"):
        if mark in kind.examples:
            continue
        train, held_out = _index(kind, kind.examples), _index(kind, [mark])
        if mark in kind.no_gold({*map(label_key, kind.examples)}, {mark}):
            found = known_labels(kind, [train], [held_out], [], "valid", "label")
            assert found.no_gold == {mark} and mark not in found.known


@each_type
def test_labels_that_the_training_text_lacks_are_known_where_they_may_be(name, capfd):
    kind = label_type(name)
    *trained, other = kind.examples
    train, held_out = _index(kind, [*trained, trained[0]]), _index(kind, kind.examples)
    found = known_labels(kind, [train], [held_out], [], "valid", "label")
    assert (other in found.known) == (not kind.is_closed)
    assert ("is unknown to the training text" in capfd.readouterr().err) == (
        kind.is_closed
    )
