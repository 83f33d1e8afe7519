"""bart: the encoder reads the text after its noises, the target is the clean text."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from research import objectives
from research.contract.batch import SENTENCE
from research.objectives.dae import bart_noise
from research.objectives.dae.bart import NOISE_RATES
from tests.testing.encoder_decoder import encoders_and_targets
from tests.testing.example_batches import keys, rows, texts, vocab

VOCAB = vocab(size=400, sentinels=20)
NO_NOISE = dict.fromkeys(NOISE_RATES, 0.0)


def example(objective, length, num_raw, *, seed=0, separators=0.05):
    """Texts with sentences of ten tokens or so."""
    raw = objective.text_spec(length).length
    text = texts(raw, np.minimum(num_raw, raw), VOCAB, seed=seed, separators=separators)
    begins = np.random.default_rng(seed).random(text.flags.shape) < 0.1
    flags = text.flags | np.where(begins & (text.flags > 0), SENTENCE, 0)
    return text._replace(flags=flags.astype(np.uint8))


rates = st.sampled_from([0.0, 0.1, 0.3, 1.0])


@settings(deadline=None, max_examples=150)
@given(
    st.fixed_dictionaries({name: rates for name in NOISE_RATES}).filter(
        lambda fields: any(fields.values())
    ),
    st.sampled_from(["word", "token"]),
    st.floats(0.2, 5),
    st.integers(4, 90),
    st.integers(0, 99),
)
def test_any_noises_can_be_combined(fields, unit, poisson_lambda, length, seed):
    objective = objectives.make_objective(
        "bart", **fields, unit=unit, poisson_lambda=poisson_lambda, random_fraction=0.1
    )
    raw = objective.text_spec(length).length
    text = example(objective, length, [raw, 0, 1, raw // 2], seed=seed)
    batch = objective.corrupt(text, keys(4, seed), VOCAB, length)
    for row, (noisy, clean) in enumerate(encoders_and_targets(batch)):
        before = text.token[row, : text.length[row]]
        if not len(before):
            assert not len(noisy) and not len(clean)
            continue
        assert clean.tolist() == [VOCAB.bos_id, *before, VOCAB.eos_id]
        assert noisy[0] == VOCAB.bos_id and noisy[-1] == VOCAB.eos_id
        inner = noisy[1:-1]
        special = inner[VOCAB.is_special[inner]]
        assert set(special.tolist()) <= {VOCAB.mask_id, VOCAB.eos_id}
        assert (inner == VOCAB.eos_id).sum() == (
            before == VOCAB.eos_id
        ).sum()  # separators stay
        changed = ("mask_rate", "delete_rate", "infill_rate", "insert_rate")
        if not any(fields[name] for name in changed):
            assert sorted(inner) == sorted(before)
    alone = objective.corrupt(rows(text, slice(3, 4)), keys(4, seed)[3:], VOCAB, length)
    for name, array in alone.items():
        np.testing.assert_array_equal(array[0], batch[name][3])


def test_the_decoder_starts_with_eos_and_reads_the_text_one_position_late():
    objective = objectives.make_objective("bart")
    batch = objective.corrupt(example(objective, 32, [30, 12, 0]), keys(3), VOCAB, 32)
    for row, count in enumerate([32, 14, 0]):
        read = batch["decoder_token"][row, :count].tolist()
        assert read == [VOCAB.eos_id, *batch["target"][row, : count - 1]][:count]
        assert batch["weight"][row].sum() == count


def test_noises_are_applied_in_order(monkeypatch):
    called = []

    def spy(name):
        noise = getattr(bart_noise, name)

        def wrapped(text, *args, **kwargs):
            if kwargs.get("role") != "empty":  # insertions of infill_spans
                called.append(name)
            return noise(text, *args, **kwargs)

        monkeypatch.setattr(bart_noise, name, wrapped)

    names = [
        "permute_sentences",
        "mask_words",
        "delete_words",
        "infill_spans",
        "insert_masks",
        "rotate_text",
    ]
    for name in names:
        spy(name)
    objective = objectives.make_objective("bart", **dict.fromkeys(NOISE_RATES, 0.3))
    objective.corrupt(example(objective, 40, [30]), keys(1), VOCAB, 40)
    assert called == names


@pytest.mark.parametrize("insert", [0.0, 0.1, 0.3, 1.0])
@pytest.mark.parametrize("length", [3, 4, 17, 128])
def test_there_is_room_for_inserted_masks(insert, length):
    if length == 3 and insert:
        return
    objective = objectives.make_objective(
        "bart", **NO_NOISE | {"insert_rate": insert, "rotate_rate": 0.5}
    )
    raw = objective.text_spec(length).length
    assert objective.batch_spec(length)["target"].shape == (raw + 2,)
    batch = objective.corrupt(example(objective, length, [raw]), keys(1), VOCAB, length)
    added = int(bart_noise.ceil_fraction(insert, np.array(raw)))
    assert batch["encoder_segment"].sum() == raw + added + 2
    assert raw + added + 2 >= length - 2
