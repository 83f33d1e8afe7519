"""wklm: which mentions are replaced, by what, and how they are scored.

Seeds are fixed; at a random seed each statistical test fails with p = 1e-4.
"""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from research import networks, objectives
from research.contract.batch import WORD, Lexicon
from research.contract.errors import UserError
from research.data.read import lexicon as lexicons
from research.objectives.contrastive import wklm
from tests.testing.example_batches import keys, texts, vocab

SIGNIFICANCE = 1e-4


def entities() -> Lexicon:
    """Two types: a (4 entries of 1, 2 or 4 pieces), b (3 of 1 or 3)."""
    entries = [[25], [26, 27], [28, 29, 30, 31], [32], [33], [34, 35, 36], [37]]
    token = np.full((7, 4), -1, np.int32)
    for number, pieces in enumerate(entries):
        token[number, : len(pieces)] = pieces
    size = np.array([len(pieces) for pieces in entries], np.int32)
    entry_type = np.array([0, 0, 0, 0, 1, 1, 1], np.int32)
    return Lexicon(token, size, entry_type, ("a", "b"))


VOCAB = vocab()._replace(lexicon=entities())


def article(width, lengths, seed=0, entity_rate=0.4):
    """Rows of entities and of other words (38 and above), in random order."""
    rng, lexicon = np.random.default_rng(seed), entities()
    example = texts(width, lengths, VOCAB, seed=seed)
    for row, length in enumerate(example.length):
        begin = 0
        while begin < length:
            is_entity = rng.random() < entity_rate
            entry = rng.integers(len(lexicon.size)) if is_entity else -1
            size = lexicon.size[entry] if entry >= 0 else 1
            if begin + size > length:
                entry, size = -1, 1
            pieces = (
                lexicon.token[entry, :size] if entry >= 0 else rng.integers(38, 64, 1)
            )
            example.token[row, begin : begin + size] = pieces
            example.flags[row, begin : begin + size] = [WORD] + [0] * (size - 1)
            begin += size
    return example


def corrupt(example, length, seed=0, **fields):
    objective = objectives.make_objective("wklm", **fields)
    return objective.corrupt(example, keys(len(example.length), seed), VOCAB, length)


def matched(example):
    """For each row, (position, entry) of its mentions in order."""
    arrays = example.token, example.flags, example.length
    entry = lexicons.match(*arrays, VOCAB.lexicon, eos_id=VOCAB.eos_id)
    return [[(p, row[p]) for p in np.flatnonzero(row >= 0)] for row in entry]


def unmasked(batch):
    """[B, L]: the text before tokens were masked, with replaced entities."""
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
def test_the_text_can_be_rebuilt_from_the_labels(length, rows, replace_rate, seed):
    # Texts with few mentions, so that each of them has a slot.
    lengths = np.minimum(rows, length - 2)
    example = article(length - 2, lengths, seed, entity_rate=0.1)
    found = matched(example)
    batch = corrupt(example, length, seed, replace_rate=replace_rate)
    token, lexicon = unmasked(batch), VOCAB.lexicon
    for row, count in enumerate(example.length):
        if len(found[row]) > length // 4:
            continue
        scored = [
            (batch["before"][row, slot], batch["after"][row, slot], replaced)
            for slot, replaced in enumerate(batch["replaced"][row])
            if batch["mention_weight"][row, slot]
        ]
        assert len(scored) <= len(found[row])
        rebuilt, here, previous = [], 1, False
        for (position, entry), (left, right, replaced) in zip(
            found[row], scored, strict=False
        ):
            rebuilt += token[row, here : left + 1].tolist()
            assert len(rebuilt) == position
            shown = token[row, left + 1 : right].tolist()
            rebuilt += lexicon.token[entry, : lexicon.size[entry]].tolist()
            equal = [
                k
                for k in range(7)
                if lexicon.token[k, : lexicon.size[k]].tolist() == shown
            ]
            assert len(equal) == 1  # the tokens of one entity
            assert lexicon.entry_type[equal[0]] == lexicon.entry_type[entry]
            assert replaced == (equal[0] != entry)
            assert not (replaced and previous)  # never two in succession
            here, previous = right, replaced
        text = example.token[row, :count].tolist()
        assert rebuilt == text[: len(rebuilt)]
        rest = [
            t
            for t in token[row, here:].tolist()
            if t not in (VOCAB.pad_id, VOCAB.eos_id)
        ]
        if len(scored) == len(found[row]):  # no mention was truncated
            assert rest == text[len(rebuilt) :][: len(rest)]
        num_tokens = (batch["segment"][row] > 0).sum()
        assert token[row, 0] == (VOCAB.bos_id if count else VOCAB.pad_id)
        if count:
            assert token[row, num_tokens - 1] == VOCAB.eos_id
        assert (token[row, num_tokens:] == VOCAB.pad_id).all()


def many(count=400, length=64, **fields):
    example = article(length - 2, [length - 2] * count)
    return example, corrupt(example, length, **fields)


@pytest.mark.parametrize("rate", [0.1, 1 / 3, 0.5])
def test_each_mention_is_replaced_equally_often(rate):
    scored = np.zeros((20_000, 6), bool)
    scored[:, [0, 1, 3, 4, 5]] = True
    replaced = wklm.choose_replaced(keys(len(scored)), scored, rate)
    assert not replaced[~scored].any()
    mention = replaced[:, [0, 1, 3, 4, 5]]
    assert not (mention[:, 1:] & mention[:, :-1]).any()
    for number in range(5):
        count = int(mention[:, number].sum())
        assert stats.binomtest(count, len(mention), rate).pvalue > SIGNIFICANCE
    if rate < 0.5:  # a mention after an unreplaced one is drawn independently
        table = np.zeros((2, 2))
        free = ~mention[:, 0] & ~mention[:, 1]
        pair = mention[free, 2].astype(int), mention[free, 4].astype(int)
        np.add.at(table, pair, 1)
        q = rate / (1 - rate)
        assert (
            stats.binomtest(int(table[1].sum()), int(free.sum()), q).pvalue
            > SIGNIFICANCE
        )


def test_every_other_entity_of_its_type_is_equally_likely():
    count, entry_type = 6000, VOCAB.lexicon.entry_type
    entry = np.tile(np.arange(7), (count, 1))
    new = wklm.other_entity(keys(count), entry, VOCAB.lexicon)
    assert (entry_type[new] == entry_type[entry]).all() and (new != entry).all()
    for old in range(7):
        others = [e for e in range(7) if entry_type[e] == entry_type[old] and e != old]
        found = [(new[:, old] == e).sum() for e in others]
        assert sum(found) == count
        assert stats.chisquare(found).pvalue > SIGNIFICANCE


def test_a_row_with_more_mentions_than_slots_scores_a_random_subset():
    example = article(62, [62] * 300, entity_rate=1.0)
    batch = corrupt(example, 64, replace_rate=0.5)
    found = [len(row) for row in matched(example)]
    assert min(found) > 16
    scored = batch["mention_weight"].sum(axis=1)
    assert scored.max() == 16 and scored.mean() > 12
    # Mentions at a row's end are among them.
    last = batch["before"].max(axis=1)
    assert np.mean(last > 48) > 0.9
    replaced = (batch["replaced"] * batch["mention_weight"]).sum()
    assert 0.4 < replaced / scored.sum() < 0.6


def test_a_row_without_mentions_is_plain_text():
    example = texts(30, [30, 12, 0], VOCAB)
    example.token[example.token > 4] = 50
    batch = corrupt(example, 32)
    assert not batch["mention_weight"].any() and batch["weight"].any()
    for name in ("before", "after", "replaced"):
        assert not batch[name].any()


def test_other_entry_types_are_not_replaced():
    _, batch = many(entry_types="b", replace_rate=0.5)
    token = unmasked(batch)
    lexicon = VOCAB.lexicon
    for row in range(20):
        for slot in np.flatnonzero(batch["mention_weight"][row]):
            left, right = batch["before"][row, slot], batch["after"][row, slot]
            shown = token[row, left + 1 : right]
            assert shown[0] in lexicon.token[lexicon.entry_type == 1][:, 0]


def test_a_mention_is_predicted_from_the_states_before_and_after_it():
    _, batch = many(count=6)
    objective, seen = objectives.make_objective("wklm", coef=3.0), []
    length, size = 64, 128
    position = np.arange(length, dtype=np.float32)

    def states(group, scored):
        return jnp.stack([jnp.asarray(position)[scored], 0.0 * scored], axis=-1)

    def head(name, features):
        assert name == "entity"
        jax.debug.callback(lambda x: seen.append(np.asarray(x)), features)
        return jnp.sin(features[..., :1] + 2 * features[..., 2:3])

    def readout(states):
        table, bias = jnp.zeros((size, 2)), jnp.zeros(size)
        return networks.Readout(states, table, bias, size)

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


def test_of_masks_anywhere_those_in_mentions_are_dropped():
    """Of ceil(rate * tokens) positions those in mentions are neither masked nor scored;
    with rows of one document, nothing of a row without mentions is.
    """
    example = article(100, [100] * 400)
    fields = {"masks": "dropped", "rate": 0.1, "replace_rate": 1e-9}
    batch = corrupt(example, 102, **fields)
    count = batch["weight"].sum(axis=1)
    inside = np.zeros(example.token.shape, bool)
    for row, found in enumerate(matched(example)):
        for position, entry in found:
            inside[row, position : position + VOCAB.lexicon.size[entry]] = True
    row, slot = np.nonzero(batch["weight"])
    assert not inside[row, batch["scored"][row, slot] - 1].any()
    assert count.max() <= 10
    tail = stats.binomtest(int(count.sum()), 4000, 1 - inside.mean())
    assert tail.pvalue > SIGNIFICANCE
    example.token[:200] = 60
    pieces = corrupt(example, 102, text_unit="pieces", **fields)
    np.testing.assert_array_equal(pieces["weight"][200:], batch["weight"][200:])
    assert not pieces["weight"][:200].any() and batch["weight"][:200].any()


def test_a_head_with_two_values_reads_what_the_table_reads():
    """Its loss is the cross-entropy of softmax, from the readout's features."""
    _, batch = many(count=6)
    objective = objectives.make_objective("wklm", head="softmax")
    position = np.arange(64, dtype=np.float32)

    def states(group, scored):
        return jnp.stack([jnp.asarray(position)[scored], 0.0 * scored], axis=-1)

    def head(name, features):
        return jnp.stack([features[..., 0], jnp.sin(features[..., 2])], axis=-1)

    def readout(states):
        table, bias = jnp.zeros((128, 2)), jnp.zeros(128)
        return networks.Readout(jnp.cos(states), table, bias, 128)

    net = SimpleNamespace(states=states, head=head, readout=readout)
    terms, _ = objective.loss(net, batch, None)
    logits = np.stack([np.cos(batch["before"]), np.sin(np.cos(batch["after"]))], -1)
    log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    picked = np.take_along_axis(log_p, batch["replaced"][..., None], -1)[..., 0]
    np.testing.assert_allclose(
        terms["entity"].total, -(picked * batch["mention_weight"]).sum(), rtol=1e-5
    )


def test_a_lexicon_is_needed_that_has_a_type_with_two_entities():
    objective = objectives.make_objective("wklm")
    with pytest.raises(UserError, match=r"data\.lexicon, which is empty"):
        objective.needs(VOCAB._replace(lexicon=None))
    unique = VOCAB.lexicon._replace(
        entry_type=np.arange(7, dtype=np.int32), type_names=tuple("abcdefg")
    )
    with pytest.raises(UserError, match="has but one"):
        objective.needs(VOCAB._replace(lexicon=unique))
    with pytest.raises(UserError, match="known: a, b"):
        objectives.make_objective("wklm", entry_types="c").needs(VOCAB)
