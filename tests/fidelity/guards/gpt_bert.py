"""Guards of GPT-BERT: rows of two losses, the network of LTG-BERT, its optimizer."""

import jax
import jax.numpy as jnp
import numpy as np

from research.contract.batch import DOCUMENT, attention_mask
from research.networks.shared.activations import ACTIVATIONS
from tests.fidelity.guards.batches import objective_with, rows_of
from tests.fidelity.guards.networks import by_path, small, states
from tests.fidelity.guards.optimizers import first_updates, unit_rate
from tests.fidelity.guards.registry import guard, phrase
from tests.fidelity.our_batches import VOCAB, full_rows
from tests.fidelity.table import System
from tests.testing.example_batches import keys


@guard("causal rows of 16")
def causal_rows(system: System):
    """Of any 16 rows of a batch whose first has a multiple of 16 as its number."""
    parts = objective_with(system).choose_parts(np.arange(160), np.zeros(160))
    (found,) = {*(parts.reshape(-1, 16) == 0).sum(axis=1).tolist()}
    return found


@guard("factor of the causal loss")
def causal_factor(system: System):
    own = small(system.name)
    terms = own.run(lambda net: own.objective.loss(net, own.batch, None)[0])
    return float(terms["causal/lm"].coef)


@guard("what a masked row attends to")
def masked_row(system: System):
    """Of two documents; the state before a masked token predicts it."""
    objective = objective_with(system).members["masked"]
    flags = np.zeros((8, 32), np.uint8)
    flags[:, [0, 20]] = DOCUMENT
    text, batch = rows_of(objective, 32, 8, flags=flags)
    first = np.arange(32) < 20
    whole = (attention_mask(batch) == (first[:, None] == first)).all()
    starts = (batch["token"][:, [0, 20]] == VOCAB.bos_id).all()
    used = batch["weight"] > 0
    row, slot = np.nonzero(used)
    same = (text.token[row, batch["scored"][row, slot]] == batch["target"][used]).all()
    return phrase({"its document, after bos": whole and starts and same})


@guard("rate of masks half-way")
def rate_half_way(system: System):
    masked = objective_with(system).members["masked"]
    steps = system.config(system.sizes[0]).train.steps
    return float(masked.rate_at(np.array([steps / 2]))[0])


@guard("order of masks over epochs")
def order_of_masks(system: System):
    """Another key chooses tokens whatever was chosen before: as often as by chance."""
    masked = objective_with(system).members["masked"]
    text = full_rows(masked, 128, 200)
    draws = [masked.corrupt(text, keys(400)[n::2], VOCAB, 128) for n in range(2)]
    chosen = np.zeros((2, 200, 128), bool)
    for mask, batch in zip(chosen, draws, strict=True):
        row, slot = np.nonzero(batch["weight"] > 0)
        mask[row, batch["scored"][row, slot]] = True
    again = (chosen[0] & chosen[1]).sum() / chosen[0].sum()
    return phrase(
        {
            "least masked first": again < 0.7 * chosen.mean(),
            "each epoch by itself": abs(again / chosen.mean() - 1) < 0.15,
        }
    )


@guard("rows of a text")
def rows_of_a_text(system: System):
    """A row takes as much of the stream as it has columns, across documents."""
    spec = objective_with(system).text_spec(128)
    return phrase({"consecutive text": (spec.unit, spec.length) == ("stream", 128)})


@guard("activation of the readout")
def readout_activation(system: System):
    own, x = small(system.name), states()
    params = own.randomized()
    ours = own.run(lambda net: net.readout(x).feature, params)
    layer = params["output"]["dense"]
    y = x @ layer["kernel"] + layer["bias"]

    def feature(name):
        z = np.asarray(ACTIVATIONS[name].apply(jnp.asarray(y)))
        z = z - z.mean(axis=-1, keepdims=True)
        return z / np.sqrt((z * z).mean(axis=-1, keepdims=True) + 1e-5)

    near = {name: np.abs(ours - feature(name)).max() for name in ("gelu", "gelu_tanh")}
    return phrase(
        {
            "gelu": near["gelu"] < 1e-4 < near["gelu_tanh"],
            "gelu, by tanh": near["gelu_tanh"] < 1e-4 < near["gelu"],
        }
    )


@guard("factors of the last mixture")
def last_mixture(system: System):
    """Of two layers: a factor for each state before, of which the newest has 1."""
    own = small(system.name)
    factors = own.params["stack"]["blocks"]["feedforward_mixture"]
    return phrase(
        {
            "one a state, at first 0 but for the newest": factors.shape == (2, 5)
            and (factors == jnp.eye(5)[:1]).all()
        }
    )


@guard("parameters of norms")
def norm_parameters(system: System):
    own = by_path(small(system.name).params)
    found = sorted(path for path in own if path.endswith("scale"))
    return phrase(
        {"of relative positions alone": found == ["stack/distance_norm/scale"]}
    )


@guard("initial feed-forward kernels of the second layer, of the first's")
def initial_depth(system: System):
    kernels = small(system.name).params["stack"]["blocks"]["feedforward"]["out"]
    first, second = np.asarray(kernels["kernel"]).std(axis=(1, 2))
    return round(float(second / first), 1)


@guard("trust ratio of joint projections")
def joint_ratios(system: System):
    """Of two projections of one input, of which one has ten times the weights."""
    config = unit_rate(system, weight_decay=1e-6, clip_norm=0.0)
    params = {"query": jnp.full((2, 2), 10.0), "key": jnp.ones((2, 2))}
    params = {name: {"kernel": value} for name, value in params.items()}
    found = first_updates(config, params, jax.tree.map(jnp.ones_like, params))
    query, key = (float(-found[name]["kernel"][0, 0]) for name in params)
    return phrase(
        {
            "of each kernel by itself": np.isclose(query / key, 10, rtol=1e-2),
            "of both kernels together": np.isclose(query / key, 1, rtol=1e-2),
        }
    )


@guard("start of the average")
def start_of_average(system: System):
    """After one step of it."""
    from research.optimize.optimizer import make_optimizer

    config = unit_rate(system, name="sgd", beta1=0.0, clip_norm=0.0, ema_decay=0.999)
    optimizer, params = make_optimizer(config, 1000), {"scale": jnp.array([5.0])}
    _, state = optimizer.update({"scale": jnp.ones(1)}, optimizer.init(params), params)
    average = float(state[-1].average["scale"][0])
    return phrase(
        {
            "the initial parameters": np.isclose(average, 0.999 * 5 + 0.001 * 4),
            "the parameters after the first step": np.isclose(average, 4),
        }
    )
