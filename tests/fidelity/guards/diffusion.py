"""Guards of masked diffusion."""

# B batch, L length

import jax.numpy as jnp
import numpy as np

from research import networks
from research.config.config import Config
from research.contract.batch import attention_mask, input_group
from research.objectives.diffusion import bound
from research.optimize.schedule import make_schedule
from tests.fidelity.guards.batches import objective_with
from tests.fidelity.guards.networks import by_path, logits, small, states
from tests.fidelity.guards.registry import guard, phrase
from tests.fidelity.our_batches import VOCAB, batch_of, full_rows
from tests.fidelity.table import System
from tests.testing.compiled_apply import initial_params
from tests.testing.example_batches import keys


@guard("mask of the first token")
def mask_of_bos(system: System):
    """At the highest rates, which mask almost all tokens."""
    objective = objective_with(
        system, min_t=0.9, max_t=1.0, count="independent", probability="t"
    )
    batch = objective.corrupt(full_rows(objective, 64, 50), keys(50), VOCAB, 64)
    first, masked = batch["token"][:, 0], batch["token"][:, 1:64] == VOCAB.mask_id
    assert masked.mean() > 0.85
    return phrase(
        {
            "never": (first == VOCAB.bos_id).all(),
            "like any token": (first == VOCAB.mask_id).mean() > 0.8,
        }
    )


@guard("logit of the mask token")
def mask_logit(system: System):
    own = small(system.name)
    of_mask = own.run(lambda net: logits(net.readout(states())))[..., VOCAB.mask_id]
    return phrase(
        {"-inf": (of_mask < -1e6).all(), "learned": (jnp.abs(of_mask) < 1e3).all()}
    )


@guard("conditioning on time")
def time_conditioning(system: System):
    """The network has the parameters of one that reads tokens alone."""
    own = small(system.name)
    lm = networks.build(own.options, networks.Needs(pattern="full"), VOCAB)
    group = input_group(own.batch)
    read = lambda net: net.readout(net.states(group)).feature  # noqa: E731
    of_lm = initial_params(lm, read)
    return phrase({"none": {*by_path(of_lm)} == {*by_path(own.params)}})


@guard("loss of tokens that are no masks")
def loss_of_others(system: System):
    batch, _, length = batch_of(system)
    masked = batch["token"][:, :length] == VOCAB.mask_id
    return float(batch["weight"][~masked].sum())


@guard("divisor of the loss")
def divisor(system: System):
    """Of rows some of whose tokens are masked."""
    own = small(system.name)
    term = own.run(lambda net: own.objective.loss(net, own.batch, None)[0]["diffusion"])
    masked = (np.asarray(own.batch["weight"]) > 0).sum()
    size = own.batch["weight"].shape[1] - 1
    return phrase(
        {
            "all tokens of the text": float(term.weight) == 4 * size != masked,
            "masked tokens": float(term.weight) == masked,
        }
    )


@guard("rate of the stable phase")
def stable_rate(system: System):
    config = system.config(system.sizes[0])
    peak, steps = np.float32(config.optimizer.learning_rate), config.train.steps
    rate = make_schedule(Config.of(config).optimizer, steps)
    early, late = (np.float32(rate(round(part * steps))) for part in (0.3, 0.7))
    return phrase({"the peak": early == late == peak})


@guard("rows that are cut")
def cut_rows(system: System):
    objective = objective_with(system, short_rate=0.5)
    batch = objective.corrupt(full_rows(objective, 64, 64), keys(64), VOCAB, 64)
    size = batch["text_weight"].sum(axis=1)
    is_cut = size < 63
    return phrase(
        {
            "each by itself": 0.2 < is_cut.mean() < 0.8 and len({*size[is_cut]}) > 8,
            "all rows of a batch, to one length": len({*size}) == 1,
        }
    )


@guard("draws of a likelihood")
def num_draws(system: System):
    objective = objective_with(system)
    text = full_rows(objective, 32, 1)
    scored = np.ones(text.token.shape, bool)
    method = next(iter(bound.METHODS))
    return len(objective.score_rows(text, scored, VOCAB, 32, method).text)


@guard("what a noised block attends to")
def noised_block(system: System):
    objective = objective_with(system, block_size=4)
    batch = objective.corrupt(full_rows(objective, 16, 1), keys(1), VOCAB, 16)
    mask, block = attention_mask(batch)[0], np.arange(16) // 4
    to_noised = block[:, None] == block
    to_clean = block[:, None] > block
    holds = (mask[:16, :16] == to_noised).all() and (mask[:16, 16:] == to_clean).all()
    return phrase({"itself, and clean blocks before it": holds})
