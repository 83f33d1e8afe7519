"""dae: each row of T5's table hides, marks and asks for what it says."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from research import models, objectives
from research.errors import UserError
from research.objectives.dae import CHOOSE, FILL, TARGET, lengths
from tests.testing.example_batches import keys, texts, vocab

OF = vocab(size=1400, sentinels=800)
LEVEL = 1e-4


def legal(choose, fill, target) -> bool:
    return (choose != "all" or fill == "shuffle") and (
        fill != "shuffle" or target == "whole"
    )


VARIANTS = [
    dict(choose=choose, fill=fill, target=target)
    for choose in CHOOSE
    for fill in FILL
    for target in TARGET
    if legal(choose, fill, target)
]
variants = st.sampled_from(VARIANTS)


def counted(num_rows: int, width: int):
    """Texts whose tokens say their places."""
    token = np.tile(
        OF.ordinary_ids[0] + np.arange(width, dtype=np.int32), (num_rows, 1)
    )
    return texts(width, [width] * num_rows, OF)._replace(token=token)


def length_for(objective, raw: int) -> int:
    """The encoder's length at which an objective reads `raw` tokens."""
    return next(n for n in range(3, 999) if objective.text_spec(n).length == raw)


def sides(batch) -> list[tuple[list, list]]:
    """Of each row, the encoder's tokens and the targets, without padding."""
    encoder = zip(batch["encoder_token"], batch["encoder_segment"] > 0, strict=True)
    target = zip(batch["target"], batch["weight"] > 0, strict=True)
    return [
        (token[here].tolist(), answer[scored].tolist())
        for (token, here), (answer, scored) in zip(encoder, target, strict=True)
    ]


def runs(tokens: list) -> tuple[bool, list[list]]:
    """Whether a side begins with a sentinel, and its runs, whose order is checked."""
    cut = [n for n, token in enumerate(tokens) if token in OF.sentinel_ids]
    assert [tokens[n] for n in cut] == list(OF.sentinel_ids[: len(cut)])
    assert (np.diff(cut) > 1).all()
    edges = [-1, *cut, len(tokens)]
    held = [tokens[a + 1 : b] for a, b in pairwise(edges)]
    return bool(tokens and cut[:1] == [0]), [run for run in held if run]


def rebuilt(encoder: list, target: list) -> list:
    """The text: clear runs and hidden runs in turn."""
    starts_hidden, clear = runs(encoder)
    starts_clear, hidden = runs(target)
    assert starts_hidden != starts_clear or not target
    both = (hidden, clear) if starts_hidden else (clear, hidden)
    text = []
    for n in range(max(map(len, both))):
        text += [token for side in both for token in (side[n : n + 1] or [[]])[0]]
    return text


@settings(deadline=None, max_examples=150)
@given(
    st.integers(5, 300),
    st.sampled_from(["spans", "iid", "prefix"]),
    st.floats(0.01, 0.99),
    st.floats(1, 20),
    st.sampled_from(["", "R", "S", "X"]),
    st.integers(0, 99),
)
def test_sentinels_on_both_sides_rebuild_the_text(
    length, choose, rate, span, mode, seed
):
    rate = min(rate, 0.5) if choose == "prefix" else rate
    objective = objectives.make_objective(
        "dae", choose=choose, rate=rate, span=span, mode=mode
    )
    raw = objective.text_spec(length).length
    num_raw = [raw, 0, 1, 2, raw - 1, raw // 2]
    example = texts(raw, np.minimum(num_raw, raw), OF, seed=seed)
    batch = objective.corrupt(example, keys(6, seed), OF, length)
    texts_ = zip(sides(batch), example.token, example.length, strict=True)
    for (encoder, target), token, n in texts_:
        if not n:
            assert not encoder and not target
            continue
        if mode:
            assert encoder.pop(0) == OF.sentinel_ids[-("RSX".index(mode) + 1)]
        assert encoder.pop() == target.pop() == OF.eos_id
        assert rebuilt(encoder, target) == token[:n].tolist()


@settings(deadline=None, max_examples=150)
@given(variants, st.integers(4, 200), st.floats(0.01, 0.5), st.integers(0, 99))
def test_what_is_read_and_what_is_written_belong_together(fields, length, rate, seed):
    objective = objectives.make_objective("dae", rate=rate, **fields)
    raw = objective.text_spec(length).length
    example = texts(raw, [raw, max(raw // 3, 1), 1], OF, seed=seed, separators=0.1)
    batch = objective.corrupt(example, keys(3, seed), OF, length)
    for row, (encoder, target) in enumerate(sides(batch)):
        text = example.token[row, : example.length[row]].tolist()
        assert encoder.pop() == target.pop() == OF.eos_id
        if fields["target"] == "whole":
            assert target == text
        if fields["fill"] == "sentinel" and fields["target"] == "spans":
            assert rebuilt(encoder, target) == text
        if fields["fill"] == "drop" and fields["target"] == "spans":
            assert sorted(encoder + target) == sorted(text)
        if fields["fill"] == "shuffle":
            assert sorted(encoder) == sorted(text)
        if fields["fill"] in ("mask", "bert", "shuffle"):
            assert len(encoder) == len(text)
            special = OF.is_special[text]
            assert (np.array(encoder)[special] == np.array(text)[special]).all()
        if fields["fill"] == "mask":
            assert all(a in (b, OF.mask_id) for a, b in zip(encoder, text, strict=True))
            lost = [b for a, b in zip(encoder, text, strict=True) if a == OF.mask_id]
            assert target in (lost, text)


@pytest.mark.parametrize(
    ("fields", "raw", "target"),
    [
        # T5's own: one token of the input's length is left for eos.
        (dict(choose="iid", fill="mask", target="whole"), 511, 512),
        (dict(choose="iid", fill="bert", target="whole"), 511, 512),
        (dict(choose="all", fill="shuffle", target="whole"), 511, 512),
        (dict(choose="prefix", fill="drop", rate=0.5), 511, 511),
        (dict(choose="prefix", rate=0.25), 511, 257),
        (dict(choose="spans", mode="R"), lengths(511, 0.15, 3.0).raw, 114),
    ],
)
def test_lengths_of_the_variants(fields, raw, target):
    objective = objectives.make_objective("dae", **fields)
    assert objective.text_spec(512).length == raw
    assert objective.batch_spec(512)["target"].shape == (target,)


def test_a_text_may_start_hidden_and_end_clear():
    objective = objectives.make_objective("dae", choose="iid", rate=0.5)
    batch = objective.corrupt(counted(64, 6), keys(64), OF, length_for(objective, 6))
    first = OF.sentinel_ids[0]
    seen = set()
    for encoder, target in sides(batch):
        starts_hidden, ends_hidden = encoder[0] == first, encoder[-2] in OF.sentinel_ids
        if len(target) > 1:
            assert (target[0] == first) != starts_hidden
            assert (target[-2] in OF.sentinel_ids) != ends_hidden
            seen.add((starts_hidden, ends_hidden))
    assert len(seen) == 4


def test_the_prefix_is_cut_at_a_uniform_place():
    rows, raw = 6000, 12
    objective = objectives.make_objective("dae", choose="prefix", fill="drop", rate=0.5)
    example = counted(rows, raw)
    batch = objective.corrupt(example, keys(rows), OF, length_for(objective, raw))
    given_ = np.array([len(encoder) - 1 for encoder, _ in sides(batch)])
    count = np.bincount(given_, minlength=raw)
    assert count[0] == 0 and len(count) == raw
    assert stats.chisquare(count[1:]).pvalue > LEVEL
    for encoder, target in sides(batch)[:20]:
        assert encoder[:-1] + target[:-1] == example.token[0].tolist()


def test_deshuffling_reads_any_order_equally_often():
    rows = 7200
    objective = objectives.make_objective(
        "dae", choose="all", fill="shuffle", target="whole"
    )
    batch = objective.corrupt(counted(rows, 4), keys(rows), OF, 5)
    orders, count = np.unique(batch["encoder_token"], axis=0, return_counts=True)
    assert len(orders) == 24
    assert stats.chisquare(count).pvalue > LEVEL


def test_bert_style_is_nine_masks_to_one_random_token():
    rows, raw = 300, 200
    objective = objectives.make_objective(
        "dae", choose="iid", fill="bert", target="whole"
    )
    example = counted(rows, raw)._replace(token=np.full((rows, raw), 810, np.int32))
    of = OF._replace(ordinary_ids=np.arange(900, 920, dtype=np.int32))
    batch = objective.corrupt(example, keys(rows), of, raw + 1)
    read = batch["encoder_token"][:, :-1]
    masks, other = (
        (read == OF.mask_id).sum(),
        read[(read != OF.mask_id) & (read != 810)],
    )
    assert stats.binomtest(int(masks), int(masks) + len(other), 0.9).pvalue > LEVEL
    assert stats.binomtest(int(masks) + len(other), read.size, 0.15).pvalue > LEVEL
    assert stats.chisquare(np.bincount(other - 900, minlength=20)).pvalue > LEVEL


def test_sentinels_and_mode_tokens_never_meet():
    objective = objectives.make_objective("dae", mode="X", rate=0.5)
    needed = objective.sentinels(128)
    example = texts(objective.text_spec(128).length, [9], OF)
    few = OF._replace(sentinel_ids=OF.sentinel_ids[: needed - 1])
    with pytest.raises(UserError, match=f"needs {needed} sentinels.*{needed - 1}"):
        objective.corrupt(example, keys(1), few, 128)
    enough = OF._replace(sentinel_ids=OF.sentinel_ids[:needed])
    batch = objective.corrupt(example, keys(1), enough, 128)
    assert batch["encoder_token"][0, 0] == enough.sentinel_ids[-3]


@pytest.mark.parametrize("fields", [dict(choose="iid"), dict(choose="prefix")])
def test_few_sentinels_are_told_before_any_text_needs_them(fields):
    objective = objectives.make_objective("dae", **fields)
    needed = objective.sentinels(128)
    few = OF._replace(sentinel_ids=OF.sentinel_ids[: needed - 1])
    with pytest.raises(UserError, match=f"needs {needed} sentinels"):
        objective.corrupt(texts(127, [0], OF), keys(1), few, 128)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        (dict(choose="every"), "choose is one of spans, iid, prefix, all"),
        (dict(fill="noise"), "fill is one of"),
        (dict(target="half"), "target is one of spans, whole"),
        (dict(z=-1.0), "z is at least 0"),
        (dict(mode="Q"), "mode is one of R, S, X"),
        (dict(choose="prefix", rate=0.6), "at most 0.5 where choose is prefix"),
        (dict(choose="all"), "choose is all only where fill is shuffle"),
        (dict(choose="iid", fill="shuffle"), "target is whole where fill is shuffle"),
    ],
)
def test_fields_that_do_not_fit_are_told(fields, told):
    with pytest.raises(UserError, match=told):
        objectives.make_objective("dae", **fields)


def test_z_adds_the_square_of_the_log_sum():
    class Net:
        encode = staticmethod(lambda group: None)
        states = staticmethod(lambda group, memory: None)
        readout = staticmethod(lambda states: made)

    batch = objectives.make_objective("dae").corrupt(
        texts(17, [17, 9], OF), keys(2), OF, 16
    )
    feature = np.ones((*batch["target"].shape, 2), np.float32)
    table, bias = np.zeros((OF.size, 2), np.float32), np.zeros(OF.size, np.float32)
    made = models.Readout(feature, table, bias, OF.size)
    plain, more = (
        objectives.make_objective("dae", z=z).loss(Net, batch, None)[0]["dae"]
        for z in (0, 0.1)
    )
    added = (more.total - plain.total) / plain.weight
    assert float(added) == pytest.approx(0.1 * np.log(OF.size) ** 2, rel=1e-5)
