"""Rows that score a text hide what they score, and nothing else."""

import numpy as np
import pytest

from research import objectives
from research.contract.batch import WORD, attention_mask, input_group
from research.contract.errors import UserError
from research.objectives.noise import scoring
from tests.testing.example_batches import texts, vocab

VOCAB = vocab(size=64)
LENGTH = 16
SIZE = [6, 3]
STARTS = np.array([[1, 0, 0, 1, 0, 1], [1, 1, 0, 0, 0, 0]], bool)
SCORED = np.array([[0, 1, 1, 1, 1, 0], [1, 1, 1, 0, 0, 0]], bool)
"""Of the first text the end of a word, and a word; of the second everything."""


@pytest.fixture
def text():
    """(two texts, which tokens are scored)."""
    example = texts(LENGTH, SIZE, VOCAB)
    pad = [(0, 0), (0, LENGTH - 6)]
    flags = np.pad(STARTS * np.uint8(WORD), pad)
    return example._replace(flags=flags), np.pad(SCORED, pad)


def hidden_sets(hidden):
    return [
        (int(text), *np.flatnonzero(mask))
        for text, mask in zip(hidden.text, hidden.mask, strict=True)
    ]


def test_tokens_the_rest_of_their_words_and_words_are_hidden(text):
    alone = [(0, 1), (0, 2), (0, 3), (0, 4), (1, 0), (1, 1), (1, 2)]
    assert hidden_sets(scoring.HIDE["original"](*text)) == alone
    assert hidden_sets(scoring.HIDE["within_word_l2r"](*text)) == [
        *[(0, 1, 2), (0, 2), (0, 3, 4), (0, 4)],
        *[(1, 0), (1, 1, 2), (1, 2)],
    ]
    words = [(0, 1, 2), (0, 3, 4), (1, 0), (1, 1, 2)]
    assert hidden_sets(scoring.HIDE["infill_words"](*text)) == words


def rows(name, text, method, **fields):
    objective = objectives.make_objective(name, **fields)
    return objective.score_rows(*text, VOCAB, LENGTH, method)


def scored_targets(made):
    """The scored tokens of each row."""
    arrays = made.arrays
    return [
        arrays["target"][row][arrays["weight"][row] > 0].tolist()
        for row in range(len(made.text))
    ]


def read(arrays, row, group="encoder_"):
    """The tokens that a row's input has, without padding."""
    size = int(arrays[group + "segment"][row].sum())
    return arrays[group + "token"][row, :size].tolist()


S0, BOS, EOS, MASK, PAD = VOCAB.sentinel_ids[0], 1, 2, 3, 0
DENOISERS = {
    "dae": (
        {"mode": "R"},
        lambda a, h, b: [VOCAB.sentinel_ids[-1], *a, S0, *b, EOS],
        lambda a, h, b: [S0, *h, EOS],
    ),
    "dae masks": (
        {"noise_mask": "iid", "replacement": "bert", "target": "whole"},
        lambda a, h, b: [*a, *[MASK] * len(h), *b, EOS],
        lambda a, h, b: [*a, *h, *b, EOS],
    ),
    "dae drop": (
        {"replacement": "drop"},
        lambda a, h, b: [*a, *b, EOS],
        lambda a, h, b: [*h, EOS],
    ),
    "bart": (
        {"label_smoothing": 0.1},
        lambda a, h, b: [BOS, *a, MASK, *b, EOS],
        lambda a, h, b: [BOS, *a, *h, *b, EOS],
    ),
    "bart masks": (
        {"infill_rate": 0.0, "mask_rate": 0.2},
        lambda a, h, b: [BOS, *a, *[MASK] * len(h), *b, EOS],
        lambda a, h, b: [BOS, *a, *h, *b, EOS],
    ),
    "bart deletion": (
        {"infill_rate": 0.0, "delete_rate": 0.2},
        lambda a, h, b: [BOS, *a, *b, EOS],
        lambda a, h, b: [BOS, *a, *h, *b, EOS],
    ),
}


@pytest.mark.parametrize("case", DENOISERS)
def test_the_decoder_writes_what_the_encoder_does_not_read(case, text):
    fields, encoder, written = DENOISERS[case]
    name, _, _ = case.partition(" ")
    made = rows(name, text, "infill_words", **fields)
    example, _ = text
    hidden = [(0, slice(1, 3)), (0, slice(3, 5)), (1, slice(0, 1)), (1, slice(1, 3))]
    assert made.text.tolist() == [row for row, _ in hidden]
    for row, (number, span) in enumerate(hidden):
        token = example.token[number, : SIZE[number]].tolist()
        parts = token[: span.start], token[span], token[span.stop :]
        assert read(made.arrays, row) == encoder(*parts)
        target = made.arrays["target"][row]
        assert target[target != PAD].tolist() == written(*parts)
        assert scored_targets(made)[row] == parts[1]
    start = made.arrays["decoder_token"][:, 0]
    assert (start == (EOS if name == "bart" else PAD)).all()


def test_the_decoder_of_mass_writes_a_word_that_the_encoder_reads_as_masks(text):
    made = rows("mass", text, "infill_words", decoder_start="previous")
    arrays, (example, _) = made.arrays, text
    hidden = [(0, slice(1, 3)), (0, slice(3, 5)), (1, slice(0, 1)), (1, slice(1, 3))]
    assert made.text.tolist() == [row for row, _ in hidden]
    for row, (number, span) in enumerate(hidden):
        whole = [BOS, *example.token[number, : SIZE[number]].tolist(), EOS]
        begin, end = 1 + span.start, 1 + span.stop
        masked = [*whole[:begin], *[MASK] * (end - begin), *whole[end:]]
        assert read(arrays, row) == masked
        assert read(arrays, row, "decoder_") == whole[begin - 1 : end - 1]
        position = arrays["decoder_position"][row, : end - begin]
        assert position.tolist() == list(range(begin - 1, end - 1))
        assert scored_targets(made)[row] == whole[begin:end]


@pytest.mark.parametrize("layout", ["decoder", "prefix"])
@pytest.mark.parametrize("target", ["spans", "whole"])
def test_one_stack_reads_the_rest_and_then_writes_what_is_hidden(layout, target, text):
    made = rows("dae", text, "infill_words", layout=layout, target=target)
    example, _ = text
    a, hidden, b, c = np.split(example.token[0, :6], [1, 3, 5])
    assert scored_targets(made)[0] == hidden.tolist()
    written = [*a, *hidden, *b, *c] if target == "whole" else [S0, *hidden]
    joined = [*a, S0, *b, *c, EOS, *written, EOS]
    assert read(made.arrays, 0, "") == [PAD, *joined[:-1]]


@pytest.mark.parametrize("spm_rate", [0.5, 1.0])
def test_fim_reads_the_rest_before_what_is_scored(spm_rate, text):
    made = rows("fim", text, "infill", spm_rate=spm_rate)
    example, _ = text
    a, hidden, b = np.split(example.token[0, :6], [1, 5])
    one, two, three = VOCAB.sentinel_ids[:3]
    before = [one, *a, two, *b, three] if spm_rate < 1 else [one, two, *b, three, *a]
    assert read(made.arrays, 0, "") == [*before, *hidden[:-1]]
    assert scored_targets(made) == [hidden.tolist(), example.token[1, :3].tolist()]


def test_orders_of_plm_are_those_of_all_texts_and_context_precedes(text):
    made = rows("plm", text, "random_orders", format="pair", mem_len=4)
    num_orders = len(made.text) // 2
    assert made.text.tolist() == [0] * num_orders + [1] * num_orders
    assert np.allclose(made.arrays["weight"].sum(axis=1)[[0, -1]] * num_orders, [4, 3])
    attends = attention_mask(input_group(made.arrays))
    orders = set()
    for row in range(num_orders):
        count = 4
        queries = made.arrays["scored"][row, :count]
        keys = attends[row, queries]
        assert keys[:, [0, 5]].all()  # the context
        of_targets = keys[:, 1:5]
        assert not of_targets.diagonal().any()
        seen = np.sort(of_targets.sum(axis=1))
        assert seen.tolist() == [0, 1, 2, 3]
        orders.add(tuple(of_targets.sum(axis=1)))
    assert len(orders) > 1
    left_to_right = rows("plm", text, "left_to_right")
    attends = attention_mask(input_group(left_to_right.arrays))
    queries = left_to_right.arrays["scored"][1, :3]
    expected = np.tril(np.ones((3, 3)), -1)
    assert (attends[1, queries][:, :3] == expected).all()
    assert not attends[1, queries][:, 3:].any()  # neither specials nor queries


def test_a_detector_reads_the_text_unchanged(text):
    made = rows("electra", text, "originals", task="chosen")
    example, scored = text
    assert read(made.arrays, 1, "") == [BOS, *example.token[1, :3], EOS]
    weight = made.arrays["discriminated_weight"]
    assert (weight[:, 1:] == scored[:, :-1]).all() and not made.arrays["weight"].any()


def test_mems_are_replaced_by_the_separator_that_precedes_documents(text):
    made = rows("lm", text, "left_to_right", mem_len=4)
    assert (made.arrays["token"][:, 0] == EOS).all()
    assert (rows("lm", text, "left_to_right").arrays["token"][:, 0] == BOS).all()


def test_the_loss_of_a_score_is_that_of_log_p_alone():
    smooth = {"label_smoothing": 0.1, "z_loss": 1e-4}
    dae = objectives.make_objective("dae", **smooth).for_scoring()
    assert dae.label_smoothing == dae.z_loss == 0
    bart = objectives.make_objective("bart", label_smoothing=0.1)
    assert bart.for_scoring().label_smoothing == 0
    mass = objectives.make_objective("mass", label_smoothing=0.1)
    assert mass.for_scoring().label_smoothing == 0
    mlm = objectives.make_objective("mlm", boundary_targets=4)
    assert mlm.for_scoring().boundary_targets == 0
    for name in ("lm", "plm"):
        mems = objectives.make_objective(name, mem_len=4)
        assert mems.for_scoring().mem_len == 0


def test_variants_without_a_score_are_refused(text):
    for name, fields in (
        ("lm", {"direction": "backward"}),
        ("dae", {"noise_mask": "prefix"}),
        ("bart", {"infill_rate": 0.0, "permute_rate": 1.0}),
        ("electra", {"task": "replace_mlm"}),
    ):
        methods = objectives.objective_class(name).score_methods
        with pytest.raises(UserError, match=f"objective {name} .* no score"):
            rows(name, text, next(iter(methods)), **fields)
