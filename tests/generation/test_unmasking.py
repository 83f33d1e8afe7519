"""Samplers of masks: texts of a known chain, and of networks that read blocks."""

import jax
import numpy as np
import pytest

from research import networks, objectives
from research.contract.errors import UserError
from research.generation.generate import make_generate, own_method
from research.generation.samplers import FOLDER, make_sampler
from research.generation.samplers.sample import Sampling
from research.generation.samplers.shared.unmasking import Unmasking
from tests.testing.example_batches import keys, texts
from tests.testing.known_chain import KnownChain, log_likelihood
from tests.testing.markov_chain import VOCAB as CHAIN_VOCAB
from tests.testing.markov_chain import states_of
from tests.testing.model_options import model_options
from tests.testing.objective_cases import VOCAB

NUM = 7
CLASSES = {name: FOLDER.part_class(name, "method") for name in FOLDER.names()}


class Chain(KnownChain):
    """The known chain, with options as networks have them."""

    options = model_options(max_length=32)


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("first_hitting", {}),
        ("first_hitting", {"block_size": 3}),
        pytest.param("ancestral", {"steps": 2000}, marks=pytest.mark.long),
        ("confidence", {"steps": 0}),
    ],
)
def test_one_mask_at_a_time_writes_texts_of_the_chain_in_any_order(
    method, options, mesh
):
    """Of true conditionals, log p of a text is the sum over any order."""
    objective = objectives.make_objective("masked_diffusion")
    sampler = make_sampler(method=method, max_tokens=NUM, **options)
    write = make_generate(objective, Chain(), {}, CHAIN_VOCAB, mesh, sampler, batch=64)
    found = [text for (text,) in write([[]] * 64)]
    state = np.array([states_of(np.array(text.tokens)) for text in found])
    assert state.shape == (64, NUM) and (state >= 0).all()
    exact = np.array([log_likelihood(row) for row in state])
    written = np.array([text.log_prob for text in found])
    assert np.isclose(written, exact, rtol=1e-4).mean() > 0.9  # two of one step differ
    if method != "confidence":  # which prefers probable texts
        entropy = chain_entropy()
        assert abs(exact.mean() + entropy) < 4 * exact.std() / 8


def chain_entropy() -> float:
    """Of texts of NUM states, by many of them."""
    from tests.testing.markov_chain import chain_texts

    state = states_of(chain_texts(4000, NUM, 5).token)
    return -float(np.mean([log_likelihood(row) for row in state]))


def test_few_steps_write_equally_many_masks_and_a_prompt_stays(make_model, mesh):
    model = make_model("masked_diffusion")
    calls = []
    sampler = make_sampler(method="confidence", max_tokens=7, steps=3)
    due = type(sampler).due

    def counted(self, plan, step, masked, log_p):
        found = due(self, plan, step, masked, log_p)
        jax.debug.callback(lambda n: calls.append(n.tolist()), found.sum(axis=1))
        return found

    type(sampler).due = counted
    try:
        write = make_generate(*model, VOCAB, mesh, sampler)
        write([[60, 61], [50]])
    finally:
        type(sampler).due = due
    assert calls == [[3, 3], [2, 2], [2, 2]]


UNMASKING = [name for name, cls in CLASSES.items() if issubclass(cls, Unmasking)]


@pytest.mark.parametrize("method", UNMASKING)
@pytest.mark.parametrize("name", ["masked_diffusion", "mlm"])
def test_masks_of_a_prompt_are_filled_and_nothing_is_added(
    name, method, make_model, mesh
):
    model = make_model(name)
    steps = {"steps": 5} if hasattr(CLASSES[method], "steps") else {}
    sampler = make_sampler(method=method, max_tokens=5, block_size=2, **steps)
    write = make_generate(*model, VOCAB, mesh, sampler)
    mask = VOCAB.mask_id
    prompts = [[60, mask, 61, mask], [mask], [60]]
    (one,), (two,), (new,) = found = write(prompts)
    for number, prompt in enumerate(prompts):  # a row does not depend on the others
        (alone,) = write([prompt], numbers=[number])
        assert alone[0].tokens == found[number][0].tokens
    assert (len(one.tokens), len(two.tokens)) == (2, 1)
    assert not one.ended and not two.ended
    assert new.ended or len(new.tokens) == 5
    if name == "mlm":  # eos is after the text: it is not written
        assert len(new.tokens) == 5


def test_options_of_rows_are_those_of_a_sampler(make_model, mesh):
    model = make_model("masked_diffusion")
    prompts = [[60, 61], [60, 61], [50]]
    rows = [(0.7, 0.9, 3), (0.0, 1.0, 4), (1.0, 1.0, 5)]
    kinds = np.float32, np.float32, np.int32
    columns = zip(zip(*rows, strict=True), kinds, strict=True)
    sampling = Sampling(*(np.array(column, kind) for column, kind in columns))
    sampler = make_sampler(method="ancestral", max_tokens=6)
    found = make_generate(*model, VOCAB, mesh, sampler)(prompts, sampling)
    for number, (temperature, top_p, seed) in enumerate(rows):
        options = {"temperature": temperature, "top_p": top_p, "seed": seed}
        own = make_sampler(method="ancestral", max_tokens=6, **options)
        alone = make_generate(*model, VOCAB, mesh, own)
        (text,) = alone([prompts[number]], None, [number])[0]
        assert text.tokens == found[number][0].tokens


@pytest.mark.parametrize("block_size", [pytest.param(1, marks=pytest.mark.long), 4])
def test_blocks_are_written_after_the_clean_ones_before_them(
    block_size, make_model, mesh
):
    """log p of blocks that are written in one step is the loss where all is masked."""
    fields = {"block_size": block_size, "min_t": 1.0}
    objective, network, params = make_model(
        "masked_diffusion", fields, output_head="bias"
    )
    never = [VOCAB.pad_id, VOCAB.bos_id, VOCAB.mask_id]  # which no text has
    params["output"]["bias"][never] = -1e9
    options = {"max_tokens": 9, "steps": 1, "temperature": 0.0}  # a step a block
    sampler = make_sampler(method="confidence", **options)
    write = make_generate(objective, network, params, VOCAB, mesh, sampler)
    prompts = [[60, 61, 70], [50], [62, 63, 64, 65, 90]]
    found = [text for (text,) in write(prompts)]
    for prompt, text in zip(prompts, found, strict=True):
        tokens = [*text.tokens, *[VOCAB.eos_id] * text.ended]
        row = [*prompt, *tokens]
        example = texts(len(row), [len(row)], VOCAB)
        example = example._replace(token=np.array([row], np.int32))
        length = -(-(len(row) + 1) // block_size) * block_size
        batch = objective.corrupt(example, keys(1), VOCAB, length)
        # Of the block in which the prompt ends, its tokens are not masked.
        at = np.arange(length)
        clean = (at <= len(prompt)) & (at > 0)
        batch["token"][0, at[clean]] = np.array([0, *row])[at[clean]]
        batch["weight"][0, clean] = 0
        if block_size == 1 or not text.ended:
            total = loss_of(objective, network, params, batch)
            assert text.log_prob == pytest.approx(-total, rel=1e-4)


def loss_of(objective, network, params, batch):
    loss = lambda net: objective.loss(net, batch, None)[0]["diffusion"].total  # noqa: E731
    return float(networks.apply(network, params, loss))


@pytest.mark.parametrize(
    ("name", "method", "drawn"),
    [
        ("lm", "greedy", "sample"),
        ("multi_token", "greedy", "sample"),
        ("masked_diffusion", "ancestral", "ancestral"),
        ("electra", "greedy", "sample"),  # which does not write: that says why
    ],
)
def test_an_objective_writes_by_a_sampler_of_its_order(name, method, drawn):
    objective = objectives.make_objective(name)
    assert own_method(objective) == method
    assert own_method(objective, draws=True) == drawn


def test_what_cannot_be_written_is_one_line(make_model, mesh):
    model = make_model("masked_diffusion", {"block_size": 4})
    for options, words in (
        ({"block_size": 3}, "block_size must be 0 or 4"),
        ({"method": "greedy"}, "writes in the order masks, of methods ancestral, conf"),
    ):
        with pytest.raises(UserError, match=words):
            sampler = make_sampler(**{"method": "first_hitting"} | options)
            make_generate(*model, VOCAB, mesh, sampler)([[60]])
    previous = make_model("mlm", {"predict_at": "previous"})
    with pytest.raises(UserError, match="predict_at must be masked"):
        sampler = make_sampler(method="confidence")
        make_generate(*previous, VOCAB, mesh, sampler)([[60]])
