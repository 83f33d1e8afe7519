"""Guards of ULMFiT's classifier: gradients, penalties, its head, rates of steps."""

import jax
import numpy as np

from research import networks
from research.optimize.schedule import make_schedule
from tests.fidelity.guards.registry import guard, phrase
from tests.fidelity.our_batches import VOCAB, objective_of
from tests.fidelity.table import System
from tests.testing.optimizer_section import section
from tests.testing.trees import make_params, parameter_shapes


def small_network(system: System):
    """The experiment's network with layers of four units."""
    config = system.config(system.sizes[0]).model.copy_and_resolve_references()
    config.update(width=4, inner_width=0)
    (objective, _) = objective_of(system)
    needs = objective.needs(VOCAB)
    return networks.build(networks.from_config(config), needs, VOCAB)


@guard("gradient of a long text")
def gradient_of_a_long_text(system: System):
    """Of the last of 80 states, with respect to the first word's vector."""
    module = small_network(system)
    token = np.arange(80)[None] % 40
    token[0, 0] = 41
    group = {"token": token, "segment": np.ones_like(token)}
    fn = lambda net: net.states(group)[0, -1].sum()  # noqa: E731

    @jax.jit
    @jax.grad
    def grad(params):
        return networks.apply(module, params, fn)

    params = make_params(module, fn)
    reads = np.any(np.asarray(grad(params)["token"]["embedding"])[41] != 0)
    return phrase({"of the whole text": reads, "of its last chunk": not reads})


@guard("layers of the head")
def layers_of_the_head(system: System):
    module = small_network(system)
    use = lambda net: net.head("label", np.ones((1, 12), np.float32))  # noqa: E731
    head = parameter_shapes(module, use)["head_label"]
    shapes = {name: leaf["kernel"].shape for name, leaf in head.items()}
    two = next(iter(shapes.values()))[0] == 12 and shapes["dense"] == (12, 50)
    return phrase({"without norms": two and head.keys() == {"dense", "out"}})


@guard("penalties of states")
def penalties_of_states(system: System):
    (objective, _) = objective_of(system)
    fields = [name for name in vars(objective) if "penalty" in name]
    return phrase({"none": not fields and not objective.needs(VOCAB).undropped})


@guard("L2 penalty")
def l2_penalty(system: System):
    optim = system.config(system.sizes[0]).optimizer
    return phrase({"none": not {"l2_penalty", "weight_decay"} & set(optim)})


@guard("slanted triangular rates")
def slanted_triangular_rates(system: System):
    """Of 1000 steps."""
    optim = system.config(system.sizes[0]).optimizer
    names = ("learning_rate", "schedule", "warmup", "final_fraction")
    keys = {name: optim[name] for name in names}
    rate = make_schedule(section(**keys, warmup_steps=100), 1000)
    at = [float(rate(step)) for step in (0, 50, 100, 101, 550, 999)]
    golden = [3.125e-4, 0.00515625, 0.01, 0.0099892361, 0.00515625, 3.232639e-4]
    (official,) = (
        row[1] for row in system.rows["unmodelled"] if row[0].startswith("slanted")
    )
    return phrase({official: np.allclose(at, golden, rtol=1e-3)})
