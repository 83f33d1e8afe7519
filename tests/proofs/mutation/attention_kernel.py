"""Mutants of the interval kernel and of what it is called with."""

from tests.proofs.mutation import Mutant

INTERVALS = "research/kernels/intervals.py"
FORWARD = "research/kernels/forward.py"
BACKWARD = "research/kernels/backward.py"
TILE = "research/kernels/tile.py"
BIAS = "research/kernels/position_bias.py"
MASK = "research/networks/layers/kernel_attention.py"

TEST_INTERVALS = "tests/kernels/test_intervals.py"
TEST_KERNEL = "tests/kernels/test_interval_attention.py"
TEST_MASK = "tests/networks/layers/test_kernel_attention.py"

MUTANTS = [
    Mutant(
        "the backward pass drops other probabilities than the forward pass",
        BACKWARD,
        "    grad_exp_NQ = drop(grad_exp_NQ, tile, scalars, inputs, settings)\n",
        "",
        TEST_KERNEL,
        "arbitrary_patterns",
    ),
    Mutant(
        "dropout follows the order of the sort",
        "research/kernels/interval_attention.py",
        "    return fill_tile(permute(index, order), tile)[:, None]",
        "    return fill_tile(index, tile)[:, None]",
        TEST_KERNEL,
        "arbitrary_patterns",
    ),
    Mutant(
        "queries in padding attend to padding",
        INTERVALS,
        "stop = jnp.where(segment == _PADDING, start, num_keys_so_far)",
        "stop = num_keys_so_far",
        TEST_INTERVALS,
        "keys_of_a_query_are_an_interval",
    ),
    Mutant(
        "a query does not attend to keys whose rank is its reach",
        INTERVALS,
        "value = jnp.concatenate([rank, reach], axis=1)",
        "value = jnp.concatenate([rank, reach - 1], axis=1)",
        TEST_INTERVALS,
        "keys_of_a_query_are_an_interval",
    ),
    Mutant(
        "tiles in which one query attends to all keys have no mask",
        INTERVALS,
        "full_start = -(-jnp.max(start, axis=2) // key_tile)",
        "full_start = -(-jnp.min(start, axis=2) // key_tile)",
        TEST_INTERVALS,
        "full_ones_no_other",
    ),
    Mutant(
        "queries are not sorted, so that no tile of a permutation is left out",
        INTERVALS,
        "return jax.lax.sort(operands, dimension=1, num_keys=2)[2]",
        "return index",
        TEST_INTERVALS,
        "fewer_tiles",
    ),
    Mutant(
        "keys before the tiles of a query are read",
        "research/kernels/query_grid.py",
        "    key = scalars.bounds.start[at_query] + step\n",
        "    key = step\n",
        TEST_KERNEL,
        "need_no_sort",
    ),
    Mutant(
        "the output of earlier tiles is not brought to the new maximum",
        FORWARD,
        "out_VQ[...] = out_VQ[...] * shrink_1Q + more_VQ",
        "out_VQ[...] = out_VQ[...] + more_VQ",
        TEST_KERNEL,
        "no_sort",
    ),
    Mutant(
        "the gradient of keys comes from the first head of a group alone",
        "research/kernels/key_grid.py",
        "    head = key_head * group + step // num_query_tiles\n",
        "    head = key_head * group\n",
        TEST_KERNEL,
        "grouped_heads",
    ),
    Mutant(
        "the gradient of the bias is that of the last tile of queries",
        BACKWARD,
        "@pl.when((pl.program_id(2) == 0) & (pl.program_id(3) == 0))",
        "@pl.when(pl.program_id(3) == 0)",
        TEST_KERNEL,
        "grouped_heads",
    ),
    Mutant(
        "a distance at a bound has the bias of the piece before it",
        BIAS,
        "return jnp.where(distance_RQ >= refs.bounds[piece], value, bias_RQ)",
        "return jnp.where(distance_RQ > refs.bounds[piece], value, bias_RQ)",
        TEST_KERNEL,
        "grouped_heads",
    ),
    Mutant(
        "a tile that is far has the bias of the nearest piece",
        BIAS,
        "        refs.logits[...] += refs.value[piece, tile.head]\n",
        "        refs.logits[...] += refs.value[0, tile.head]\n",
        TEST_KERNEL,
        "grouped_heads",
    ),
    Mutant(
        "the scored queries have the intervals of the first ones",
        MASK,
        "own = jax.tree.map(index, intervals._replace(key_order=None))",
        "own = jax.tree.map(\n        lambda x: x[:, : scored_BP.shape[1]], "
        "intervals._replace(key_order=None)\n    )",
        TEST_MASK,
        "queries_behind_the_keys",
    ),
    Mutant(
        "FLOPs of a kernel on a mesh are those of one device",
        "research/run/flops.py",
        'times = params["mesh"].size',
        "times = 1",
        TEST_MASK,
        "flops",
    ),
    Mutant(
        "FLOPs of a kernel are those of its tiles filled up",
        MASK,
        "lengths = num_queries, mask.num_keys",
        "lengths = tuple(-(-n // 128) * 128 for n in (num_queries, mask.num_keys))",
        TEST_MASK,
        "flops",
    ),
    Mutant(
        "queries of the second segment do not attend to mems",
        TILE,
        "mask_NQ |= index_NQ < interval[2:]",
        "mask_NQ |= index_NQ < 0",
        TEST_KERNEL,
        "relative_terms_mems",
    ),
    Mutant(
        "tiles of mems before the interval of a query are not computed",
        INTERVALS,
        "lowest = jnp.where(mems.reshape(start.shape) > 0, 0, start)",
        "lowest = start",
        TEST_KERNEL,
        "relative_terms_mems",
    ),
    Mutant(
        "a query that attends to no key does not attend to mems",
        INTERVALS,
        "stop=jnp.where(sees_mems & empty, num_mems_B1, stop)",
        "stop=stop",
        TEST_KERNEL,
        "relative_terms_mems",
    ),
    Mutant(
        "mems that are padding are keys",
        INTERVALS,
        "is_mem = mems_segment > 0",
        "is_mem = mems_segment >= 0",
        TEST_KERNEL,
        "relative_terms_mems",
    ),
    Mutant(
        "queries in padding attend to mems",
        INTERVALS,
        "return _with_mems(intervals, num_mems, query_segment > 0)",
        "return _with_mems(intervals, num_mems, query_segment >= 0)",
        TEST_KERNEL,
        "relative_terms_mems",
    ),
    Mutant(
        "the relative terms of keys stay in the order of the arrays",
        "research/kernels/interval_attention.py",
        "key_rel=_in_tiles(key_rel_BM1F, plan.key_order, tiles.key)[:, 0],",
        "key_rel=_in_tiles(key_rel_BM1F, None, tiles.key)[:, 0],",
        TEST_KERNEL,
        "relative_terms_mems",
    ),
]
