"""Mutants of the interval kernel for Hopper and of what it is called with."""

from tests.proofs.mutation import Mutant

ATTENTION = "research/kernels/hopper/attention.py"
BLOCK = "research/kernels/hopper/block.py"
LOGITS = "research/kernels/hopper/logits.py"
QUERY_BLOCK = "research/kernels/hopper/query_block.py"
FORWARD = "research/kernels/hopper/forward.py"
BACKWARD = "research/kernels/hopper/backward.py"

TEST_KERNEL = "tests/kernels/test_hopper_attention.py"
TEST_MASK = "tests/networks/layers/test_hopper_attention.py"

MUTANTS = [
    Mutant(
        "on Hopper a query attends to the key behind its interval",
        LOGITS,
        "(key < stop)",
        "(key <= stop)",
        TEST_KERNEL,
        "arbitrary_patterns",
    ),
    Mutant(
        "on Hopper a tile has no mask where its first keys are seen by all",
        QUERY_BLOCK,
        "(self.full_start <= at) & (at < self.full_stop)",
        "(self.full_start <= at) | (at < self.full_stop)",
        TEST_KERNEL,
        "arbitrary_patterns",
    ),
    Mutant(
        "on Hopper the output of earlier tiles is not brought to the new maximum",
        FORWARD,
        "out_QK = out_QK * spread(shrink_Q, out_QK.shape)",
        "out_QK = out_QK + 0 * spread(shrink_Q, out_QK.shape)",
        TEST_KERNEL,
        "arbitrary_patterns",
    ),
    Mutant(
        "on Hopper the output is that of the first tiles of keys",
        QUERY_BLOCK,
        "lambda index: (self.start + index, 0))",
        "lambda index: (index, 0))",
        TEST_KERNEL,
        "arbitrary_patterns",
    ),
    Mutant(
        "on Hopper a query without keys outputs NaN",
        FORWARD,
        "sum_Q = jnp.where(has_keys_Q, sum_Q, 1.0)",
        "sum_Q = jnp.where(has_keys_Q, sum_Q, 0.0)",
        TEST_KERNEL,
        "arbitrary_patterns",
    ),
    Mutant(
        "on Hopper the gradient of the logits keeps its mean",
        BACKWARD,
        "grad_QN = exp_QN * (grad_exp_QN - spread(mean_Q[...], shape))",
        "grad_QN = exp_QN * grad_exp_QN",
        TEST_KERNEL,
        "arbitrary_patterns",
    ),
    Mutant(
        "on Hopper the gradient of keys is that of the first tiles of queries",
        BACKWARD,
        "matrix = pl.BlockSpec((tiles.query, width), lambda index: (start + index, 0))",
        "matrix = pl.BlockSpec((tiles.query, width), lambda index: (index, 0))",
        TEST_KERNEL,
        "arbitrary_patterns",
    ),
    Mutant(
        "on Hopper the gradient of keys reads those of the first head",
        BACKWARD,
        "(inputs.key.at[row, keys, head], key_NK)",
        "(inputs.key.at[row, keys, 0], key_NK)",
        TEST_KERNEL,
        "arbitrary_patterns",
    ),
    Mutant(
        "on Hopper the softmax's means are those of other queries",
        ATTENTION,
        "_in_tiles(jnp.sum(product_BLHK, axis=-1), plan.query_order, tile)",
        "_in_tiles(jnp.sum(product_BLHK, axis=-1), None, tile)",
        TEST_KERNEL,
        "arbitrary_patterns",
    ),
    Mutant(
        "on Hopper the tensor cores read keys that are not transposed",
        BLOCK,
        "right = plgpu.transpose_ref(right, (1, 0))",
        "shape = left.shape[0], right.shape[1]",
        TEST_KERNEL,
        "lower_for_cuda",
    ),
    Mutant(
        "on Hopper tiles do not fit into shared memory",
        ATTENTION,
        "128: Tiles(64, 64)}",
        "128: Tiles(256, 256)}",
        TEST_KERNEL,
        "lower_for_cuda",
    ),
    Mutant(
        "a GPU runs the kernel for TPUs",
        "research/networks/layers/attention.py",
        '    if platform() == "gpu":\n        from',
        '    if platform() == "cuda":\n        from',
        TEST_MASK,
        "mesh_of_gpus",
    ),
    Mutant(
        "the FLOPs of kernels for GPUs do not count",
        "research/run/flops.py",
        'KERNELS = ("pallas_call", "mpmd_map")',
        'KERNELS = ("pallas_call",)',
        TEST_MASK,
        "flops",
    ),
    Mutant(
        "on Hopper the scored queries have the plan of all",
        "research/networks/layers/kernel_attention.py",
        "intervals = scored_intervals(self.intervals, scored_BP)",
        "intervals = self.intervals",
        TEST_MASK,
        "scored_queries",
    ),
    Mutant(
        "on Hopper dropout of attention weights is left out in silence",
        "research/networks/layers/kernel_attention.py",
        "self.settings._replace(dropout=dropout_rate)",
        "self.settings",
        TEST_MASK,
        "dropout_is_that",
    ),
    Mutant(
        "on Hopper dropout falls on sorted positions, not on their own",
        ATTENTION,
        "    return _in_tiles(index, order, tile)\n",
        "    return _in_tiles(index, None, tile)\n",
        TEST_KERNEL,
        "arbitrary_patterns",
    ),
    Mutant(
        "on Hopper dropped probabilities are missing in the sum of all",
        FORWARD,
        "sum_Q = sum_Q * shrink_Q + jnp.sum(exp_QN, axis=1)",
        "exp_QN = drop(exp_QN, hash_Q, hash_N, settings)\n"
        "                sum_Q = sum_Q * shrink_Q + jnp.sum(exp_QN, axis=1)",
        TEST_KERNEL,
        "arbitrary_patterns",
    ),
    Mutant(
        "on Hopper a tile near and far has the bias of the far alone",
        LOGITS,
        "is_last = self.low >= bounds[-1]",
        "is_last = self.high >= bounds[-1]",
        TEST_KERNEL,
        "arbitrary_patterns",
    ),
    Mutant(
        "on Hopper the bias of queries and keys is that of keys and queries",
        LOGITS,
        "return key - spread(self.query_position[...], shape, query_dim)",
        "return spread(self.query_position[...], shape, query_dim) - key",
        TEST_KERNEL,
        "arbitrary_patterns",
    ),
    Mutant(
        "on Hopper the gradient of a piece of the bias has those beyond it",
        LOGITS,
        "            is_in &= distance_QN < bias.edges[piece + 1]\n",
        "",
        TEST_KERNEL,
        "arbitrary_patterns",
    ),
    Mutant(
        "on Hopper the gradient of keys is that without a bias",
        BACKWARD,
        "logits_NQ = add_bias(logits_NQ, bias, settings, query_dim=1)",
        "logits_NQ = add_bias(logits_NQ, None, settings, query_dim=1)",
        TEST_KERNEL,
        "arbitrary_patterns",
    ),
    Mutant(
        "on Hopper the gradient of values has no dropout",
        BACKWARD,
        "value_grad_NK, kept_NQ.astype(dtype)",
        "value_grad_NK, exp_NQ.astype(dtype)",
        TEST_KERNEL,
        "arbitrary_patterns",
    ),
    Mutant(
        "a GPU before Hopper is given its kernel",
        "research/networks/layers/hopper_attention.py",
        "if not capability.startswith(HOPPER):",
        "if not capability:",
        TEST_MASK,
        "refused",
    ),
]
