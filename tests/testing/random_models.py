"""Small networks with random parameters, and meshes to run them on."""

import jax
import numpy as np

from research import networks
from research.distributed import sharding
from research.distributed.options import MeshOptions
from research.program.setup import zero_batch
from tests.testing.objective_cases import make_constants, make_network


def mesh_of(**axes):
    """A mesh of fake devices; by default of one."""
    sizes = {"data": 1, "fsdp": 1, "tensor": 1} | axes
    count = int(np.prod(list(sizes.values())))
    return sharding.make_mesh(MeshOptions(**sizes), jax.devices()[:count])


def random_model(name, fields=None, *, scale=0.3, **options):
    """An objective, its network and random parameters: biases are not 0."""
    small = {"width": 16, "heads": 4, "feedforward": 24} | options
    objective, network = make_network(name, fields or {}, **small)
    batch = zero_batch(objective.batch_spec(12), 2) | {"carry": None}
    batch["example"] = jax.numpy.zeros(2, "int32")
    batch |= make_constants(objective)
    loss = lambda net: objective.loss(net, batch, jax.random.key(0))  # noqa: E731
    boxed = jax.eval_shape(lambda: networks.init(network, loss, jax.random.key(0)))
    leaves, tree = jax.tree.flatten(networks.unbox(boxed))
    random = np.random.default_rng(0)
    params = [random.normal(0, scale, x.shape).astype(np.float32) for x in leaves]
    return objective, network, jax.tree.unflatten(tree, params)
