"""Guards of networks that read windows of words."""

import jax
import numpy as np

from research import networks
from research.config.config import Config
from research.networks.shared.dense import Module, dropout
from research.optimize.max_norm import limit_norms
from research.optimize.optimizer import make_optimizer
from tests.fidelity.guards.registry import guard, phrase
from tests.fidelity.our_batches import VOCAB
from tests.fidelity.table import System


@guard("decay of biases")
def decay_of_biases(system: System):
    """By a step with a gradient of 0."""
    config = system.config(system.sizes[0])
    optimizer = make_optimizer(Config.of(config).optimizer, config.train.steps)
    params = {"bias": np.ones(2, np.float32), "kernel": np.ones((2, 2), np.float32)}
    zeros = jax.tree.map(np.zeros_like, params)
    updates, _ = optimizer.update(zeros, optimizer.init(params), params)
    of_bias, of_kernel = (float(updates[n].ravel()[0]) for n in ("bias", "kernel"))
    return phrase({"none": of_bias == 0, "as that of weights": of_bias == of_kernel})


class Dropped(Module):
    options: networks.Network

    def __call__(self, x):
        return dropout(self, x, "head")


@guard("what dropout leaves")
def what_dropout_leaves(system: System):
    options = networks.from_config(system.config(system.sizes[0]).model)
    key, ones = jax.random.key(0), np.ones((1, 8, 8), np.float32)
    left = networks.apply(Dropped(options), {}, lambda net: net(ones), key).max()
    return phrase({"as it is": left == 1, "doubled in training": left == 2})


@guard("windows of a text")
def windows_of_a_text(system: System):
    """Filters with a bias of 1 find at most -2 in a text's words, and 0 in padding."""
    options = networks.from_config(system.config(system.sizes[0]).model)
    module = networks.build(options, networks.Needs(pattern="full"), VOCAB)
    segment = np.array([[1, 1, 0, 0, 0, 0, 0, 0]], np.int32)
    group = {"token": np.full_like(segment, 7), "segment": segment}

    @jax.jit
    def largest(key):
        fn = lambda net: net.states(group)  # noqa: E731
        params = networks.unbox(networks.init(module, fn, key))
        shape = params["token"]["embedding"].shape
        params["token"]["embedding"] = np.full(shape, 2 / options.table_width)
        for size in options.filter_widths:
            kernel = params["stack"][f"filter_{size}"]
            params["stack"][f"filter_{size}"] = np.full(kernel.shape, -1.0)
            params["stack"][f"bias_{size}"] = np.ones(kernel.shape[-1])
        return networks.apply(module, params, fn).max()

    found = float(largest(jax.random.key(0)))
    return phrase({"padding's, too": found == 1.0, "those with a word": found == 0.0})


@guard("norm of a class's weights")
def norm_of_a_classs_weights(system: System):
    """Of a kernel whose columns have the norms 5 and the root of 5."""
    limit = limit_norms(system.config(system.sizes[0]).optimizer.max_norm)
    kernel = np.float32([[3, 1], [4, 2]])
    params = {"head_label": {"out": {"kernel": kernel}}}
    updates, _ = limit.update(jax.tree.map(np.zeros_like, params), None, params)
    after = kernel + updates["head_label"]["out"]["kernel"]
    expected = [[1.8, 1], [2.4, 2]]
    return phrase({"at most 3": np.allclose(after, expected, atol=1e-5)})
