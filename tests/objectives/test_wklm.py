"""wklm: which mentions are replaced, by what, and what is asked about them.

Chi-square tests are at fixed seeds; each would fail by chance for 1 seed in 10,000.
"""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from research import models, objectives
from research.batch import WORD, Lexicon
from research.data.corpora import lexicon as lexicons
from research.errors import UserError
from research.objectives import wklm
from tests.testing.example_batches import keys, texts, vocab
from tests.testing.model_options import model_options

LEVEL = 1e-4
ORDINARY = np.arange(25, 64)


def entities() -> Lexicon:
    """Of two kinds: a (4 entries of 1, 2 or 4 pieces), b (3 of 1 or 3)."""
    spelled = [[25], [26, 27], [28, 29, 30, 31], [32], [33], [34, 35, 36], [37]]
    token = np.full((7, 4), -1, np.int32)
    for number, pieces in enumerate(spelled):
        token[number, : len(pieces)] = pieces
    size = np.array([len(pieces) for pieces in spelled], np.int32)
    kind = np.array([0, 0, 0, 0, 1, 1, 1], np.int32)
    return Lexicon(token, size, kind, ("a", "b"))


OF = vocab()._replace(lexicon=entities())


def article(width, lengths, seed=0, share=0.4):
    """Rows of entities and of words that are none (38 and above), drawn in turn."""
    rng, known = np.random.default_rng(seed), entities()
    example = texts(width, lengths, OF, seed=seed)
    for row, length in enumerate(example.length):
        place = 0
        while place < length:
            entry = rng.integers(len(known.size)) if rng.random() < share else -1
            size = known.size[entry] if entry >= 0 else 1
            if place + size > length:
                entry, size = -1, 1
            pieces = (
                known.token[entry, :size] if entry >= 0 else rng.integers(38, 64, 1)
            )
            example.token[row, place : place + size] = pieces
            example.flags[row, place : place + size] = [WORD] + [0] * (size - 1)
            place += size
    return example


def corrupt(example, length, seed=0, **fields):
    objective = objectives.make_objective("wklm", **fields)
    return objective.corrupt(example, keys(len(example.length), seed), OF, length)


def matched(example):
    """Of each row: (place, entry) of its mentions in order."""
    entry = lexicons.match(example.token, example.flags, example.length, OF.lexicon)
    return [[(p, row[p]) for p in np.flatnonzero(row >= 0)] for row in entry]


def unmasked(batch):
    """The text that was read, with the hidden tokens written back."""
    token = batch["token"].copy()
    row, slot = np.nonzero(batch["weight"])
    token[row, batch["scored"][row, slot]] = batch["target"][row, slot]
    return token


@settings(deadline=None, max_examples=60)
@given(
    st.integers(6, 60),
    st.lists(st.integers(0, 58), min_size=1, max_size=5),
    st.sampled_from([0.1, 1 / 3, 0.5]),
    st.integers(0, 10**6),
)
def test_the_text_can_be_rebuilt_from_the_answers(length, rows, replace, seed):
    # Texts of few mentions, so that each of them has a slot.
    lengths = np.minimum(rows, length - 2)
    example = article(length - 2, lengths, seed, share=0.1)
    found = matched(example)
    batch = corrupt(example, length, seed, replace=replace)
    token, known = unmasked(batch), OF.lexicon
    for row, count in enumerate(example.length):
        if len(found[row]) > length // 4:
            continue
        asked = [
            (batch["before"][row, slot], batch["after"][row, slot], replaced)
            for slot, replaced in enumerate(batch["replaced"][row])
            if batch["mention_weight"][row, slot]
        ]
        assert len(asked) <= len(found[row])
        rebuilt, here, before = [], 1, False
        for (place, entry), (left, right, replaced) in zip(
            found[row], asked, strict=False
        ):
            rebuilt += token[row, here : left + 1].tolist()
            assert len(rebuilt) == place
            shown = token[row, left + 1 : right].tolist()
            pieces = known.token[entry, : known.size[entry]].tolist()
            rebuilt += pieces
            spelled = [
                k for k in range(7) if known.token[k, : known.size[k]].tolist() == shown
            ]
            assert len(spelled) == 1  # what is shown is an entity
            assert known.entry_type[spelled[0]] == known.entry_type[entry]
            assert replaced == (spelled[0] != entry)
            assert not (replaced and before)  # never two in a row
            here, before = right, replaced
        text = example.token[row, :count].tolist()
        assert rebuilt == text[: len(rebuilt)]
        rest = [
            t for t in token[row, here:].tolist() if t not in (OF.pad_id, OF.eos_id)
        ]
        if len(asked) == len(found[row]):  # nothing was cut, or only plain words
            assert rest == text[len(rebuilt) :][: len(rest)]
        num_tokens = (batch["segment"][row] > 0).sum()
        assert token[row, 0] == (OF.bos_id if count else OF.pad_id)
        if count:
            assert token[row, num_tokens - 1] == OF.eos_id
        assert (token[row, num_tokens:] == OF.pad_id).all()


def many(count=400, length=64, **fields):
    example = article(length - 2, [length - 2] * count)
    return example, corrupt(example, length, **fields)


@pytest.mark.parametrize("replace", [0.1, 1 / 3, 0.5])
def test_each_mention_is_replaced_as_often_wherever_it_stands(replace):
    asked = np.zeros((20_000, 6), bool)
    asked[:, [0, 1, 3, 4, 5]] = True
    drawn = wklm.alternate(keys(len(asked)), asked, replace)
    assert not drawn[~asked].any()
    places = drawn[:, [0, 1, 3, 4, 5]]
    assert not (places[:, 1:] & places[:, :-1]).any()
    for place in range(5):
        count = int(places[:, place].sum())
        assert stats.binomtest(count, len(places), replace).pvalue > LEVEL
    if replace < 0.5:  # the next mention but one is drawn by itself
        table = np.zeros((2, 2))
        free = ~places[:, 0] & ~places[:, 1]
        np.add.at(table, (places[free, 2].astype(int), places[free, 4].astype(int)), 1)
        q = replace / (1 - replace)
        assert stats.binomtest(int(table[1].sum()), int(free.sum()), q).pvalue > LEVEL


def test_every_other_entity_of_its_kind_is_as_likely():
    count, known = 6000, OF.lexicon
    entry = np.tile(np.arange(7), (count, 1))
    new = wklm.other(keys(count), entry, known)
    assert (known.entry_type[new] == known.entry_type[entry]).all() and (
        new != entry
    ).all()
    for old in range(7):
        others = [
            e
            for e in range(7)
            if known.entry_type[e] == known.entry_type[old] and e != old
        ]
        found = [(new[:, old] == e).sum() for e in others]
        assert sum(found) == count
        assert stats.chisquare(found).pvalue > LEVEL


def test_hidden_tokens_are_outside_of_mentions_and_one_in_twenty():
    _, batch = many(length=128, count=200)
    token, used = unmasked(batch), batch["weight"] > 0
    hidden = np.take_along_axis(token, batch["scored"], axis=1)[used]
    assert (hidden >= 38).all()  # words that no entity has
    num_tokens = (batch["segment"] > 0).sum(axis=1)
    np.testing.assert_array_equal(used.sum(axis=1), np.rint(0.05 * num_tokens))
    shown = np.take_along_axis(batch["token"], batch["scored"], axis=1)[used]
    masked = int((shown == OF.mask_id).sum())
    assert stats.binomtest(masked, len(shown), 0.8).pvalue > LEVEL


def test_a_row_of_more_mentions_than_slots_asks_about_some_of_all():
    example = article(62, [62] * 300, share=1.0)
    batch = corrupt(example, 64, replace=0.5)
    found = [len(row) for row in matched(example)]
    assert min(found) > 16
    asked = batch["mention_weight"].sum(axis=1)
    assert asked.max() == 16 and asked.mean() > 12
    # Which mentions is drawn: those of the row's end are among them.
    last = batch["before"].max(axis=1)
    assert np.mean(last > 48) > 0.9
    gone = (batch["replaced"] * batch["mention_weight"]).sum()
    assert 0.4 < gone / asked.sum() < 0.6


def test_a_row_without_mentions_is_plain_text():
    example = texts(30, [30, 12, 0], OF)
    example.token[example.token > 4] = 50
    batch = corrupt(example, 32)
    assert not batch["mention_weight"].any() and batch["weight"].any()
    for name in ("before", "after", "replaced"):
        assert not batch[name].any()


def test_kinds_that_are_not_named_stay():
    _, batch = many(kinds="b", replace=0.5)
    token = unmasked(batch)
    known = OF.lexicon
    for row in range(20):
        for slot in np.flatnonzero(batch["mention_weight"][row]):
            left, right = batch["before"][row, slot], batch["after"][row, slot]
            shown = token[row, left + 1 : right]
            assert shown[0] in known.token[known.entry_type == 1][:, 0]


def test_a_mention_is_asked_for_by_the_states_before_and_after_it():
    _, batch = many(count=6)
    objective, seen = objectives.make_objective("wklm", coef=3.0), []
    length, size = 64, 128
    place = np.arange(length, dtype=np.float32)

    def states(group, scored):
        return jnp.stack([jnp.asarray(place)[scored], 0.0 * scored], axis=-1)

    def head(name, features):
        assert name == "entity"
        jax.debug.callback(lambda x: seen.append(np.asarray(x)), features)
        return jnp.sin(features[..., :1] + 2 * features[..., 2:3])

    def readout(states):
        table, bias = jnp.zeros((size, 2)), jnp.zeros(size)
        return models.Readout(states, table, bias, size)

    net = SimpleNamespace(states=states, head=head, readout=readout)
    terms = jax.jit(lambda batch: objective.loss(net, batch, None)[0])(batch)
    jax.effects_barrier()
    before, after = batch["before"], batch["after"]
    np.testing.assert_array_equal(seen[0][..., 0], before)
    np.testing.assert_array_equal(seen[0][..., 2], after)
    logit = np.sin(before + 2.0 * after)
    loss = np.log1p(np.exp(logit)) - logit * batch["replaced"]
    weight = batch["mention_weight"]
    np.testing.assert_allclose(terms["entity"].total, (loss * weight).sum(), rtol=1e-5)
    assert terms["entity"].weight == weight.sum() and terms["entity"].coef == 3
    np.testing.assert_allclose(
        terms["mlm"].total / terms["mlm"].weight, np.log(size), rtol=1e-5
    )


@pytest.mark.parametrize(
    "fields, said",
    [
        ({"replace": 0.6}, "at most 1/2, not 0.6"),
        ({"rate": 0.0}, "rate is between"),
        ({"mask": 0.9, "random": 0.2}, "together at most 1"),
    ],
)
def test_what_is_not_right_is_refused(fields, said):
    with pytest.raises(UserError, match=said):
        objectives.make_objective("wklm", **fields)


def test_a_lexicon_is_needed_whose_kinds_have_two_entities():
    objective = objectives.make_objective("wklm")
    with pytest.raises(UserError, match=r"data\.lexicon, which is empty"):
        objective.network(model_options(), OF._replace(lexicon=None))
    lonely = OF.lexicon._replace(
        entry_type=np.arange(7, dtype=np.int32), type_names=tuple("abcdefg")
    )
    with pytest.raises(UserError, match="has but one"):
        objective.network(model_options(), OF._replace(lexicon=lonely))
    with pytest.raises(UserError, match="known: a, b"):
        objectives.make_objective("wklm", kinds="c").network(model_options(), OF)
