"""unilm: the attention mask of each mode, and choices, are as in the paper.

Seeds are fixed; at a random seed each statistical test fails with p = 1e-4.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from research import networks, objectives
from research.contract.batch import LONE, NEXT, OTHER_DOCUMENT, SENTENCE, attention_mask
from research.contract.errors import UserError
from research.data import counter_rng
from research.objectives.lm import unilm
from tests.testing.example_batches import keys, texts, vocab
from tests.testing.model_options import model_options

VOCAB = vocab()
SIGNIFICANCE = 1e-4
MODES = ("bidirectional", "seq2seq", "forward", "backward")


def only(mode, **fields):
    """The objective with all rows in one mode."""
    return objectives.make_objective(
        "unilm", **{name: 0.0 for name in MODES} | {mode: 1.0}, **fields
    )


def pairs(objective, length, num_raw, *, seed=0, label=None):
    """Pairs of spans, cut anywhere, with sentences in them."""
    raw = objective.text_spec(length).length
    made = texts(raw, np.minimum(num_raw, raw), VOCAB, seed=seed)
    rng = np.random.default_rng(seed + 1)
    flags = made.flags | np.where(rng.random(made.flags.shape) < 0.1, SENTENCE, 0)
    first = rng.integers(1, np.maximum(made.length, 2))
    drawn = rng.choice([NEXT, OTHER_DOCUMENT], len(first)) if label is None else label
    return made._replace(
        flags=flags.astype(np.uint8),
        first_length=np.minimum(first, made.length).astype(np.int32),
        label=np.broadcast_to(drawn, len(first)).astype(np.int32),
    )


def corrupt(objective, example, length, seed=0):
    return objective.corrupt(example, keys(len(example.length), seed), VOCAB, length)


def original(batch, row) -> list[int]:
    """The tokens of a row before any was masked."""
    token, used = batch["token"][row].copy(), batch["weight"][row] > 0
    token[batch["scored"][row][used]] = batch["target"][row][used]
    return list(token[batch["segment"][row] > 0])


def published_mask(mode, sources, total):
    """[total, total] bool: the paper's attention mask (section 2.3), pair by pair.

    sources: tokens up to and with the first segment's end.
    """
    mask = np.zeros((total, total), bool)
    for query in range(total):
        for key in range(total):
            if mode == "bidirectional":
                mask[query, key] = True
            elif mode == "forward":
                mask[query, key] = key <= query
            elif mode == "backward":
                mask[query, key] = key >= query
            elif query < sources:
                mask[query, key] = key < sources
            else:
                mask[query, key] = key < sources or key <= query
    return mask


@pytest.mark.parametrize("mode", MODES)
@settings(deadline=None, max_examples=25)
@given(st.integers(6, 40), st.integers(0, 99))
def test_the_attention_mask_is_the_papers_for_every_pair(mode, length, seed):
    objective = only(mode)
    num_raw = np.random.default_rng(seed).integers(0, length - 2, 4)
    example = pairs(objective, length, num_raw, seed=seed)
    batch = corrupt(objective, example, length, seed)
    mask = attention_mask(batch)
    for row in range(len(num_raw)):
        token = original(batch, row)
        total = len(token)
        expected = np.zeros((length, length), bool)
        if total:
            first_end = token.index(VOCAB.eos_id) + 1
            expected[:total, :total] = published_mask(mode, first_end, total)
        np.testing.assert_array_equal(mask[row], expected)


@pytest.mark.parametrize("mode", MODES)
def test_each_mode_reads_its_own_segments(mode):
    objective = only(mode)
    example = pairs(objective, 40, np.arange(38), seed=5)
    batch = corrupt(objective, example, 40)
    types = {"bidirectional": (0, 1), "seq2seq": (4, 5), "forward": 2, "backward": 3}
    for row, length in enumerate(example.length):
        text, first = list(example.token[row, :length]), int(example.first_length[row])
        read = original(batch, row)
        token_type = list(batch["token_type"][row, : len(read)])
        if mode != "bidirectional" and example.label[row] == OTHER_DOCUMENT:
            text = text[:first]  # contiguous text only
        if not text:
            assert not read
            continue
        assert read[0] == VOCAB.bos_id and read[-1] == VOCAB.eos_id
        assert [t for t in read[1:] if t != VOCAB.eos_id] == text
        if mode in ("forward", "backward"):
            assert len(read) == len(text) + 2
            assert set(token_type) == {types[mode]}
            continue
        cut = read.index(VOCAB.eos_id) - 1
        if mode == "bidirectional" or example.label[row] == NEXT:
            assert cut == first
        elif len(text) > 1:  # one span, cut before a sentence where it has two
            starts = np.flatnonzero(example.flags[row, 1 : len(text)] & SENTENCE) + 1
            assert cut in (starts if len(starts) else range(1, len(text)))
        second = len(text) - cut
        expected = [types[mode][0]] * (cut + 2) + [types[mode][1]] * (second + 1)
        assert token_type == (expected if second else expected[: cut + 2])
        np.testing.assert_array_equal(
            batch["position"][row, : len(read)], np.arange(len(read))
        )


FULL = {"other_documents": "bidirectional"}


def test_with_full_rows_pairs_of_two_documents_are_bidirectional_alone():
    """The modes' fractions stay, where labels are drawn at the rate that is asked for;
    of pairs of a lone sentence all modes are drawn.
    """
    objective = objectives.make_objective("unilm", **FULL)
    spec = objective.text_spec(12)
    assert spec.lone and np.isclose(spec.other_document_rate, 1 / 6)
    rng, num = np.random.default_rng(0), 20_000
    label = np.where(rng.random(num) < 1 / 6, OTHER_DOCUMENT, NEXT)
    label = np.where(rng.random(num) < 0.1, LONE, label)
    example = pairs(objective, 12, np.full(num, 9), label=label)
    batch = corrupt(objective, example, 12)
    mode = np.array([0, 0, 2, 3, 1, 1])[batch["token_type"][:, 0]]
    assert (mode[label == OTHER_DOCUMENT] == 0).all()
    rates = np.array([1 / 3, 1 / 3, 1 / 6, 1 / 6])
    for own in (label == LONE, label >= 0):
        count = np.bincount(mode[own], minlength=4)
        assert stats.chisquare(count, rates * own.sum()).pvalue > SIGNIFICANCE
    two = mode == 0
    np.testing.assert_array_equal(batch["label_weight"], two)
    np.testing.assert_array_equal(batch["label"][two], label[two] != NEXT)
    half = stats.binomtest(
        int((label[two & (label < 2)] == NEXT).sum()), int((two & (label < 2)).sum())
    )
    assert half.pvalue > SIGNIFICANCE
    read = (batch["segment"] > 0).sum(axis=1)
    specials = np.where(mode < 2, 3, 2)
    np.testing.assert_array_equal(read[label < 2], (9 + specials)[label < 2])


def test_with_full_rows_the_fractions_hold_for_any_modes():
    """Also where no row is bidirectional, or all are."""
    for bidirectional in (0.0, 0.2, 1.0):
        rest = dict.fromkeys(MODES[1:], (1 - bidirectional) / 3)
        objective = objectives.make_objective(
            "unilm", bidirectional=bidirectional, **rest, **FULL
        )
        rate = objective.text_spec(12).other_document_rate
        label = np.where(np.random.default_rng(1).random(9000) < rate, 1, 0)
        mode = objective.mode(keys(9000), label)
        expected = np.array([bidirectional, *rest.values()]) * 9000
        count = np.bincount(mode, minlength=4)
        assert (count[expected == 0] == 0).all()
        some = expected > 0
        if some.sum() > 1:
            tail = stats.chisquare(count[some], expected[some])
            assert tail.pvalue > SIGNIFICANCE


def test_only_bidirectional_pairs_have_a_label():
    objective = objectives.make_objective("unilm")
    example = pairs(objective, 20, np.full(500, 17))
    batch = corrupt(objective, example, 20)
    two = batch["token_type"][:, 0] == 0
    np.testing.assert_array_equal(batch["label_weight"], two)
    np.testing.assert_array_equal(batch["label"], np.where(two, example.label, 0))
    spec = objective.text_spec(20)
    assert spec.other_document_rate == 0.5 and spec.unit == "pair"


@pytest.mark.parametrize("ends", ["target", "forward"])
def test_the_only_special_that_is_chosen_is_the_end(ends):
    chosen_ends = {}
    for mode in MODES:
        objective = only(mode, last_separators=ends)
        example = pairs(objective, 20, np.full(3000, 17), label=NEXT)
        batch = corrupt(objective, example, 20)
        used = batch["weight"] > 0
        special = used & VOCAB.is_special[batch["target"]]
        total = (batch["segment"] > 0).sum(axis=1)
        assert (batch["target"][special] == VOCAB.eos_id).all()
        last = np.broadcast_to(total[:, None] - 1, used.shape)
        np.testing.assert_array_equal(batch["scored"][special], last[special])
        chosen_ends[mode] = special.any(axis=1).mean()
    assert chosen_ends.pop("seq2seq") > 0.1  # 3 of 18 candidates, less at the edge
    if ends == "forward":
        assert chosen_ends.pop("forward") > 0.1
    assert not any(chosen_ends.values())


def test_four_choices_in_five_are_single_tokens():
    size = unilm.ngram_sizes(keys(300), 50, 0.2, 3)
    count = np.bincount(size.ravel())[1:]
    expected = np.array([0.8, 0.1, 0.1]) * size.size
    assert stats.chisquare(count, expected).pvalue > SIGNIFICANCE


def test_a_random_surplus_is_of_all_ngrams():
    """Of four trigrams, of which ten tokens stay, any two tokens may be missing."""
    candidate = np.ones((4000, 200), bool)
    three, count = np.full((4000, 200), 3), np.full(4000, 10)
    sizes = []
    for surplus in ("last", "random"):
        chosen = unilm.choose_ngrams(
            keys(4000), candidate, three, count, surplus=surplus
        )
        assert (chosen.sum(axis=1) == 10).all()
        holes = chosen[:, :-2] & ~chosen[:, 1:-1] & chosen[:, 2:]
        sizes.append(holes.any(axis=1).mean())
    # Where all four are whole and apart, two of twelve tokens are none of the four in
    # the middle of a trigram with probability 8/12 * 7/11; some overlap.
    assert sizes[0] < 0.1 and 0.35 < sizes[1] < 1 - 8 / 12 * 7 / 11


def test_too_few_token_types_are_refused():
    needs = objectives.make_objective("unilm").needs(VOCAB)
    small = {"layers": 1, "width": 8, "heads": 1}
    with pytest.raises(UserError, match=r"model.token_types is 2.* 6"):
        networks.build(model_options(**small, token_types=2), needs, VOCAB)
    for enough in (0, 6):
        networks.build(model_options(**small, token_types=enough), needs, VOCAB)


def test_choices_are_made_one_after_the_other():
    key, length = keys(60), 40
    candidate = counter_rng.uniform(key, "candidate", length) < 0.8
    sizes = unilm.ngram_sizes(key, length, 0.5, 4)
    count = np.arange(60) % 30
    score = counter_rng.random_bits(key, "choose", length)
    expected = np.zeros(candidate.shape, bool)
    for row, chosen in enumerate(expected):
        for first in np.argsort(score[row]):
            if chosen[first]:
                continue
            for place in range(first, min(first + sizes[row, first], length)):
                if not candidate[row, place]:
                    break
                chosen[place] |= chosen.sum() < count[row]
    found = unilm.choose_ngrams(key, candidate, sizes, count)
    np.testing.assert_array_equal(found, expected)
