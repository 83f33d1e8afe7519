"""A law fails on an objective with a mistake, and says what it is."""

import re

import pytest

from tests.laws import test_contract as contract
from tests.laws import test_losses as losses
from tests.testing.wrong_objectives import SHOWN_BY, WRONG

LEAK = losses.test_no_target_is_seen_by_what_predicts_it
LABELS = losses.test_labels_are_not_learned_from_text_without_signal
INPUT = contract.test_the_input_is_the_same_whatever_the_labels_of_a_text
MASK = contract.test_the_attention_mask_matches_the_pattern
TEXT = contract.test_scored_positions_are_in_the_text
PADDING = contract.test_padding_has_no_attention_and_no_weight
ROW = contract.test_a_row_is_a_function_of_its_text_and_key
NOISE = contract.test_noise_depends_on_the_key
SUMS = losses.test_sums_over_parts_are_sums_over_the_batch
NOTES = contract.test_notes_are_lines_of_their_row
ZERO = losses.test_weight_zero_has_no_gradient

SEEN = r"position \d+ sees its own target: row \d+, target \d+, term prefix"
MISTAKES = [
    ("FullPrefix", {}, LEAK, SEEN),
    ("UnshiftedPrefix", {}, LEAK, SEEN),
    ("NothingMasked", {}, LEAK, "the input shows every target"),
    *(
        ("ShownPair", {"shown_by": array}, LABELS, "shows the labels of nsp")
        for array in SHOWN_BY
    ),
    ("ShownPairByTargets", {}, LABELS, "shows the labels of nsp"),
    *(
        ("ShownClass", {"shown_by": array}, INPUT, f"^{array} changes with the labels")
        for array in SHOWN_BY
    ),
    ("UndeclaredPattern", {}, MASK, "not those of pattern causal: row 0, whether"),
    ("WeightOnPadding", {}, TEXT, r"weight on padding: row \d+, position \d+"),
    ("WeightOnEmptyRows", {}, PADDING, "label_weight is above 0 in rows without text"),
    ("GlobalNoise", {}, ROW, "not drawn from the row's key"),
    ("SameNoise", {}, NOISE, "is the same for other keys"),
    ("UntitledNotes", {}, NOTES, "notes have no line of tokens"),
    ("MeanLoss", {}, SUMS, "lm of a batch is .*: a Term is a sum and its weight"),
    ("UnweightedLoss", {}, ZERO, "lm is .*, though all weights are 0"),
]


@pytest.mark.parametrize(
    ("name", "fields", "law", "says"),
    MISTAKES,
    ids=[" ".join([name, *fields.values()]) for name, fields, *_ in MISTAKES],
)
def test_a_law_fails_on_a_mistake_and_says_what_it_is(name, fields, law, says, request):
    arguments = {"name": name, "fields": fields}
    if "length" in law.__code__.co_varnames[: law.__code__.co_argcount]:
        arguments["length"] = 24
    if law is NOISE:
        arguments["monkeypatch"] = request.getfixturevalue("monkeypatch")
    with pytest.raises(AssertionError) as error:
        law(**arguments)
    assert re.search(says, str(error.value)), error.value


def test_every_wrong_objective_fails_a_law():
    assert {name for name, *_ in MISTAKES} == WRONG.keys()
