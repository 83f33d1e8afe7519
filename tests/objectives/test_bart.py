"""bart: any noises in their order on one side, the clean text on the other."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from research import objectives
from research.batch import SENTENCE
from research.errors import UserError
from research.objectives.bart import NOISES
from research.objectives.corruption import bart_noise
from tests.testing.example_batches import keys, rows, texts, vocab

OF = vocab(size=400, sentinels=20)
NONE = dict.fromkeys(NOISES, 0.0)


def example(objective, length, num_raw, *, seed=0, separators=0.05):
    """Texts with sentences of ten tokens or so."""
    raw = objective.text_spec(length).length
    text = texts(raw, np.minimum(num_raw, raw), OF, seed=seed, separators=separators)
    begins = np.random.default_rng(seed).random(text.flags.shape) < 0.1
    flags = text.flags | np.where(begins & (text.flags > 0), SENTENCE, 0)
    return text._replace(flags=flags.astype(np.uint8))


def sides(batch) -> list[tuple[np.ndarray, np.ndarray]]:
    """Of each row, the encoder's tokens and the targets, without padding."""
    encoder = zip(batch["encoder_token"], batch["encoder_segment"] > 0, strict=True)
    target = zip(batch["target"], batch["weight"] > 0, strict=True)
    return [
        (token[here], answer[scored])
        for (token, here), (answer, scored) in zip(encoder, target, strict=True)
    ]


rates = st.sampled_from([0.0, 0.1, 0.3, 1.0])


@settings(deadline=None, max_examples=150)
@given(
    st.fixed_dictionaries({name: rates for name in NOISES}).filter(
        lambda fields: any(fields.values())
    ),
    st.sampled_from(["word", "token"]),
    st.floats(0.2, 5),
    st.integers(4, 90),
    st.integers(0, 99),
)
def test_any_noises_follow_one_another(fields, unit, poisson, length, seed):
    objective = objectives.make_objective(
        "bart", **fields, unit=unit, poisson=poisson, random=0.1
    )
    raw = objective.text_spec(length).length
    text = example(objective, length, [raw, 0, 1, raw // 2], seed=seed)
    batch = objective.corrupt(text, keys(4, seed), OF, length)
    for row, (noisy, clean) in enumerate(sides(batch)):
        before = text.token[row, : text.length[row]]
        if not len(before):
            assert not len(noisy) and not len(clean)
            continue
        assert clean.tolist() == [OF.bos_id, *before, OF.eos_id]
        assert noisy[0] == OF.bos_id and noisy[-1] == OF.eos_id
        inner = noisy[1:-1]
        special = inner[OF.is_special[inner]]
        assert set(special.tolist()) <= {OF.mask_id, OF.eos_id}
        assert (inner == OF.eos_id).sum() == (
            before == OF.eos_id
        ).sum()  # separators stay
        if not any(fields[name] for name in ("mask", "delete", "infill", "insert")):
            assert sorted(inner) == sorted(before)
    alone = objective.corrupt(rows(text, slice(3, 4)), keys(4, seed)[3:], OF, length)
    for name, array in alone.items():
        np.testing.assert_array_equal(array[0], batch[name][3])


def test_the_decoder_starts_with_eos_and_reads_the_text_one_place_late():
    objective = objectives.make_objective("bart")
    batch = objective.corrupt(example(objective, 32, [30, 12, 0]), keys(3), OF, 32)
    for row, count in enumerate([32, 14, 0]):
        read = batch["decoder_token"][row, :count].tolist()
        assert read == [OF.eos_id, *batch["target"][row, : count - 1]][:count]
        assert batch["weight"][row].sum() == count


def test_noises_come_in_their_order(monkeypatch):
    called = []

    def spy(name):
        noise = getattr(bart_noise, name)

        def wrapped(text, *args, **kwargs):
            if kwargs.get("role") != "empty":  # infilling's own insertions
                called.append(name)
            return noise(text, *args, **kwargs)

        monkeypatch.setattr(bart_noise, name, wrapped)

    names = ["permute_sentences", "mask", "delete", "infill", "insert", "rotate"]
    for name in names:
        spy(name)
    objective = objectives.make_objective("bart", **dict.fromkeys(NOISES, 0.3))
    objective.corrupt(example(objective, 40, [30]), keys(1), OF, 40)
    assert called == names


def test_the_default_is_infilling_of_permuted_sentences():
    objective = objectives.make_objective("bart")
    length, num_rows = 258, 200
    text = example(objective, length, [256] * num_rows, separators=0.0)
    batch = objective.corrupt(text, keys(num_rows), OF, length)
    other = objectives.make_objective("bart", permute=0.0)
    order = other.corrupt(text, keys(num_rows), OF, length)
    kept = []
    for row, (noisy, clean) in enumerate(sides(batch)):
        inner = noisy[(noisy != OF.mask_id)]
        kept.append(len(inner) / len(clean))
        assert np.isin(inner, clean).all()
        assert noisy.tolist() != sides(order)[row][0].tolist()
    # Runs into each other and empty spans leave a bit more than 70 % of the words.
    assert 0.70 < np.mean(kept) < 0.76
    masks = np.mean([(noisy == OF.mask_id).sum() for noisy, _ in sides(order)])
    words = ((text.flags & 1) > 0).sum() / num_rows
    # A mask for each span of three words; one in six begins inside another.
    assert 0.75 < masks / (0.3 * words / 3) < 0.9


def test_rotation_and_masking_alone():
    turned = objectives.make_objective("bart", **NONE | {"rotate": 1.0})
    text = example(turned, 20, [18] * 50, separators=0.0)
    first = []
    for row, (noisy, _) in enumerate(sides(turned.corrupt(text, keys(50), OF, 20))):
        before, inner = text.token[row].tolist(), noisy[1:-1].tolist()
        assert any(before[k:] + before[:k] == inner for k in range(18))
        first.append(inner == before)
    assert not all(first)
    masked = objectives.make_objective("bart", **NONE | {"mask": 0.25}, unit="token")
    for row, (noisy, _) in enumerate(sides(masked.corrupt(text, keys(50), OF, 20))):
        differs = noisy[1:-1] != text.token[row]
        assert differs.sum() == 5 and (noisy[1:-1][differs] == OF.mask_id).all()


@pytest.mark.parametrize("insert", [0.0, 0.1, 0.3, 1.0])
@pytest.mark.parametrize("length", [3, 4, 17, 128])
def test_there_is_room_for_what_is_inserted(insert, length):
    if length == 3 and insert:
        return
    objective = objectives.make_objective(
        "bart", **NONE | {"insert": insert, "rotate": 0.5}
    )
    raw = objective.text_spec(length).length
    assert objective.batch_spec(length)["target"].shape == (raw + 2,)
    batch = objective.corrupt(example(objective, length, [raw]), keys(1), OF, length)
    added = int(bart_noise.share(insert, np.array(raw)))
    assert batch["encoder_segment"].sum() == raw + added + 2
    assert raw + added + 2 >= length - 2


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        (dict(infill=1.2), "infill is between 0 and 1, not 1.2"),
        (dict(NONE), "no noise: one of"),
        (dict(poisson=0.0), "poisson is at least 0.1"),
        (dict(unit="letter"), "unit is one of word, token"),
        (dict(text="pair"), "text is one of stream"),
    ],
)
def test_fields_that_do_not_fit_are_told(fields, told):
    with pytest.raises(UserError, match=told):
        objectives.make_objective("bart", **fields)
