"""One gradient: a batch has the same gradient on any mesh and in micro-batches."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from research import networks
from research.contract.batch import ArraySpec
from research.distributed import sharding
from research.distributed.options import MeshOptions
from research.program.constants import Constants
from research.program.setup import make_init, state_shardings
from research.program.step import gradient
from tests.testing.objective_cases import (
    CASES,
    make_batch,
    make_constants,
    make_network,
    parametrize,
    vocab_of,
)
from tests.testing.objective_variants import NO_TOKENS, VL_BERT

LENGTH = 24
ROWS = 16
KEY = jax.random.key(0)

FIRST = {c.values[0]: c for c in reversed(CASES) if "only" not in c.values[1]}
WITH_MEMS = [case for case in CASES if "mem_len" in case.values[1]]
GRADIENT_CASES = [
    *FIRST.values(),
    *(case for case in WITH_MEMS if case not in FIRST.values()),
    *(pytest.param("image_text", fields) for fields in (VL_BERT, NO_TOKENS)),
]
"""Each objective once, all cases with mems, and networks of pictures."""


SHORT = ("electra", "infoword", "plm", "sentence_vectors")
"""Two networks, a loss over the batch, mems, cached vectors; the others are long."""


@parametrize(
    GRADIENT_CASES,
    lambda case: (
        case.values[0] not in SHORT
        or (case.values[0] == "plm" and "mem_len" not in case.values[1])
    ),
)
def test_a_mesh_and_micro_batches_do_not_change_the_gradient(name, fields):
    objective, net = make_network(name, fields)
    lengths = [objective.text_spec(LENGTH).length - n % 5 for n in range(ROWS - 1)]
    _, batch = make_batch(objective, LENGTH, [*lengths, 0])
    batch["example"] = np.arange(ROWS, dtype=np.int32)
    specs = objective.batch_spec(LENGTH) | {"example": ArraySpec(())}
    one = {"data": 1, "fsdp": 1, "tensor": 1}
    constants = partial(
        Constants, objective.constants(vocab_of(objective)), vocabulary={}
    )
    on_one = constants(sharding.make_mesh(MeshOptions(**one), jax.devices()[:1]))
    init = make_init(objective, net, optax.sgd(1.0), specs, ROWS, on_one)
    boxed = jax.eval_shape(init, KEY)
    shapes = networks.unbox(boxed)
    rng = np.random.default_rng(0)
    params = jax.tree.map(
        lambda leaf: rng.normal(size=leaf.shape).astype(np.float32) / 5, shapes.params
    )
    carry = jax.tree.map(
        lambda leaf: (
            rng.normal(size=leaf.shape).astype(leaf.dtype)
            if jnp.issubdtype(leaf.dtype, jnp.floating)
            else np.ones(leaf.shape, leaf.dtype)
        ),
        shapes.carry,
    )

    def run(sizes, accumulate):
        count = int(np.prod(list(sizes.values())))
        mesh = sharding.make_mesh(MeshOptions(**sizes), jax.devices()[:count])
        with sharding.context(mesh):
            where = state_shardings(boxed, optax.sgd(1.0), mesh).params
            rows = sharding.batch_sharding(mesh)
            placed = jax.device_put(params, where)
            fed = jax.device_put(batch | {"carry": carry}, rows)
            abstract = constants(mesh).abstract
            own = jax.tree.map(lambda leaf: leaf.sharding, abstract)
            fed |= jax.device_put(make_constants(objective), own)

            @jax.jit
            def grads(params, batch):
                return gradient(
                    objective,
                    net,
                    params,
                    batch,
                    key=KEY,
                    dropout_key=None,
                    accumulate=accumulate,
                )

            return jax.device_get(grads(placed, fed))

    whole = run(one, 1)
    splits = objective.supports_accumulation or objective.caches_vectors
    split = run({"data": 2, "fsdp": 2, "tensor": 2}, 2 if splits else 1)
    largest = np.max([np.abs(leaf).max() for leaf in jax.tree.leaves(whole[0])])
    assert largest > 1e-3
    for expected, got in zip(
        jax.tree.leaves(whole[0]), jax.tree.leaves(split[0]), strict=True
    ):
        np.testing.assert_allclose(got, expected, atol=1e-5 * largest, rtol=0)
    for term in whole[1]:
        np.testing.assert_allclose(split[1][term], whole[1][term], rtol=1e-5, atol=1e-5)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, atol=1e-4), whole[2], split[2]
    )
