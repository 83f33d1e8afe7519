"""Smaller networks: integers and their scales, heads that stay, what is stored."""

from tests.proofs.mutation import Mutant

QUANTIZED = "research/networks/layers/quantized.py"
HEADS = "research/shrinking/heads.py"
GATES = "research/networks/layers/head_gates.py"
RECIPES = "research/shrinking/recipes.py"
TEST_QUANTIZED = "tests/networks/test_quantized.py"
TEST_SHRINK = "tests/launch/test_shrink.py"

BLOCKS = "research/networks/modules/blocks.py"
PRUNING = "research/pruning.py"
L0_GATES = "research/l0_gates.py"

MUTANTS = [
    Mutant(
        "the scale of ternary weights is the mean of all of them",
        QUANTIZED,
        "scale = _with_few_bits(total / jnp.maximum(count, 1))",
        "scale = _with_few_bits(mean)",
        TEST_QUANTIZED,
        "few_values",
    ),
    Mutant(
        "binary weights of 0 are 0",
        QUANTIZED,
        "jnp.where(x < 0, -1, 1)",
        "jnp.sign(x)",
        TEST_QUANTIZED,
        "few_values",
    ),
    Mutant(
        "scales of few values keep all bits",
        QUANTIZED,
        "return jnp.where(x < 0, -1, 1).astype(jnp.int8), _with_few_bits(mean)",
        "return jnp.where(x < 0, -1, 1).astype(jnp.int8), mean",
        TEST_QUANTIZED,
        "few_values",
    ),
    Mutant(
        "the threshold of pruning takes values below 0 by their size",
        PRUNING,
        "jnp.where(bits >= sign, ~bits, bits | sign)",
        "jnp.where(bits >= sign, bits ^ sign, bits | sign)",
        "tests/test_pruning.py",
        "kth_largest",
    ),
    Mutant(
        "gates without noise have the temperature, too",
        L0_GATES,
        "    stretched = jax.nn.sigmoid(score) * (HIGH - LOW) + LOW\n",
        "    score = score if noise is not None else score / TEMPERATURE\n"
        "    stretched = jax.nn.sigmoid(score) * (HIGH - LOW) + LOW\n",
        "tests/test_pruning.py",
        "l0_draws",
    ),
    Mutant(
        "the penalty counts gates without their temperature",
        L0_GATES,
        "shift = TEMPERATURE * math.log(-LOW / HIGH)",
        "shift = math.log(-LOW / HIGH)",
        "tests/test_pruning.py",
        "l0_draws or a_gate_is_open",
    ),
    Mutant(
        "between steps the parameters are those of the last draw",
        L0_GATES,
        "lambda w, s, old: w * gate(s) - old, weight, score, select(params)",
        "lambda w, z, old: w * z - old,\n"
        "            weight,\n"
        "            _drawn_gates(score, state.noise),\n"
        "            select(params),",
        "tests/test_pruning.py",
        "l0_draws",
    ),
    Mutant(
        "gradients of L0 are of the parameters without noise",
        "research/step.py",
        "            network,\n            drawn,\n",
        "            network,\n            state.params,\n",
        "tests/test_step.py",
        "drawn_parameters",
    ),
    Mutant(
        "layers that stay are rescaled by their rate",
        BLOCKS,
        "after = lax.cond(runs, run, lambda: skipped)",
        "after = lax.cond(runs, lambda: run() * 2, lambda: skipped)",
        "tests/networks/test_layer_dropout.py",
        "each_draw",
    ),
    Mutant(
        "all layers are skipped together",
        BLOCKS,
        "jax.random.bernoulli(jax.random.fold_in(key, 1), 1 - rate)",
        "jax.random.bernoulli(jax.random.fold_in(dropout_keys[0], 1), 1 - rate)",
        "tests/networks/test_layer_dropout.py",
        "each_draw",
    ),
    Mutant(
        "the penalty of soft movement is not divided by the size of a matrix",
        PRUNING,
        "own * (1 - own) / score[0].size",
        "own * (1 - own)",
        "tests/test_pruning.py",
        "soft_movement",
    ),
    Mutant(
        "the threshold of soft movement is there from the start",
        PRUNING,
        "threshold = self.threshold * (1 - self._left(count))",
        "threshold = self.threshold",
        "tests/test_pruning.py",
        "soft_movement",
    ),
    Mutant(
        "integers go down to -128",
        QUANTIZED,
        "jnp.clip(rounded, -LARGEST, LARGEST)",
        "jnp.clip(rounded, -LARGEST - 1, LARGEST)",
        TEST_QUANTIZED,
        "bit_by_bit",
    ),
    Mutant(
        "scales keep all bits, so that integers are not read exactly",
        QUANTIZED,
        "DROPPED_BITS = 8 ",
        "DROPPED_BITS = 1 ",
        TEST_QUANTIZED,
        "twice",
    ),
    Mutant(
        "values are cut off, not rounded",
        QUANTIZED,
        "jnp.round(x.astype(jnp.float32) / scale)",
        "jnp.trunc(x.astype(jnp.float32) / scale)",
        TEST_QUANTIZED,
        "published",
    ),
    Mutant(
        "the gradient is clipped where inputs are beyond their range",
        QUANTIZED,
        "    grad_x = matmul(rounded, kernel.T, grad.dtype)\n",
        "    grad_x = matmul(rounded, kernel.T, grad.dtype)\n"
        "    grad_x = jnp.where(jnp.abs(x_int8) < LARGEST, grad_x, 0)\n",
        TEST_QUANTIZED,
        "gradients",
    ),
    Mutant(
        "a kernel that is stored as integers is multiplied as float32",
        QUANTIZED,
        "return _product(*_input(x, limit), values, scale).astype(x.dtype)",
        "return (x @ (values * scale)).astype(x.dtype)",
        TEST_QUANTIZED,
        "integers_alone",
    ),
    Mutant(
        "ranges are learned",
        QUANTIZED,
        "jnp.where(limit == MEASURE, largest, 0.0)",
        "largest",
        TEST_QUANTIZED,
        "gradients",
    ),
    Mutant(
        "the least important heads stay",
        HEADS,
        "np.argsort(-importance, axis=1",
        "np.argsort(importance, axis=1",
        TEST_SHRINK,
        "importance_of_a_head",
    ),
    Mutant(
        "importance by tokens lets their signs cancel",
        GATES,
        "(by_token_BLH, jnp.abs(by_token_BLH))",
        "(by_token_BLH, by_token_BLH)",
        TEST_SHRINK,
        "importance_of_a_head",
    ),
    Mutant(
        "output kernels keep the rows of other heads",
        HEADS,
        'np.take_along_axis(own["out"]["kernel"], index[:, :, None], axis=1)',
        'own["out"]["kernel"][:, : index.shape[1]]',
        TEST_SHRINK,
        "without_heads",
    ),
    Mutant(
        "the first layers stay in place of every nth",
        RECIPES,
        "(number + 1) * options.layers // count - 1 for number",
        "number for number",
        TEST_SHRINK,
        "every_nth",
    ),
]
