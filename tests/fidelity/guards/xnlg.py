"""Guards of XNLG: its noise, its pairs, and what is frozen."""

import jax
import jax.numpy as jnp
import numpy as np

from research.contract.batch import PARAGRAPH, input_group
from tests.fidelity.guards.batches import objective_with
from tests.fidelity.guards.networks import small
from tests.fidelity.guards.optimizers import first_updates, section, unit_rate
from tests.fidelity.guards.registry import guard, phrase
from tests.fidelity.our_batches import VOCAB, full_rows
from tests.fidelity.table import System
from tests.testing.example_batches import keys

LENGTH = 42


@guard("gradient of what is frozen")
def gradient_of_the_frozen(system: System):
    """Whether a large one makes the update of the decoder smaller."""
    config = section(system)
    grads = {name: jnp.array([1e3]) for name in config.frozen.split(",")}
    grads["decoder"] = jnp.array([config.clip_norm / 2])
    plain = unit_rate(system, name="sgd", beta1=0.0, frozen=config.frozen)
    update = first_updates(plain, grads, grads)
    kept = np.isclose(-update["decoder"], grads["decoder"], rtol=1e-3).all()
    return phrase({"not in the norm": kept, "in the norm": not kept})


@guard("dropout of the frozen encoder")
def dropout_of_the_encoder(system: System):
    own = small(system.name)
    encode = lambda net: net.encode(input_group(own.batch, "encoder_"))  # noqa: E731
    dropped, plain = (own.run(encode, dropout=each) for each in (True, False))
    pairs = zip(jax.tree.leaves(dropped), jax.tree.leaves(plain), strict=True)
    equal = all(np.array_equal(one, other) for one, other in pairs)
    return phrase({"on": not equal, "off": equal})


@guard("pieces that are moved and left out")
def order_of_moves(system: System):
    """Where half of all pieces are left out: whether two that are at least as far
    apart as pieces are moved ever change places.
    """
    fields = {"languages": "0", "drop_rate": 0.5, "blank_rate": 0.0}
    objective = objective_with(system, **fields)
    text = full_rows(objective, LENGTH)
    first = int(VOCAB.ordinary_ids[0])
    text.token[:] = first + np.arange(text.token.shape[1])
    read = objective.corrupt(text, keys(len(text.token)), VOCAB, LENGTH)
    rows = [row[row >= first] - first for row in read["encoder_token"]]
    farthest = max(int((np.maximum.accumulate(row) - row).max()) for row in rows)
    moved = 0 < farthest < objective.shuffle_distance
    return phrase({"moved, and then left out": moved})


@guard("directions of a batch of pairs")
def directions(system: System):
    """Of pairs in the languages 0 and 1: which the encoder reads."""
    objective = objective_with(system, languages="0:1")
    text = full_rows(objective, LENGTH)
    text.flags[:, 10] |= PARAGRAPH
    batch = objective.corrupt(text, keys(len(text.token)), VOCAB, LENGTH)
    second = batch["encoder_token_type"][:, 0].mean()
    return phrase(
        {"drawn for each row": 0.4 < second < 0.6, "one": second in (0.0, 1.0)}
    )
