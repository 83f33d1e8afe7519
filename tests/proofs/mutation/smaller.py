"""Smaller networks: integers and their scales, heads that stay, what is stored."""

from tests.proofs.mutation import Mutant

QUANTIZED = "research/networks/layers/quantized.py"
HEADS = "research/shrinking/heads.py"
GATES = "research/networks/layers/head_gates.py"
RECIPES = "research/shrinking/recipes.py"
SPLITTING = "research/shrinking/splitting.py"
TEST_QUANTIZED = "tests/networks/test_quantized.py"
TEST_SHRINK = "tests/launch/test_shrink.py"

AUGMENTATION = "research/inference/augmentation.py"
FILL = "research/generation/fill.py"
TEST_AUGMENT = "tests/launch/test_augment.py"
BLOCKS = "research/networks/modules/blocks.py"
PRUNING = "research/pruning.py"
L0_GATES = "research/l0_gates.py"

MUTANTS = [
    Mutant(
        "the scale of ternary weights is the mean of all of them",
        QUANTIZED,
        "scale = _with_few_bits(largest + total / jnp.maximum(count, 1))",
        "scale = _with_few_bits(mean)",
        TEST_QUANTIZED,
        "few_values",
    ),
    Mutant(
        "means are float32 sums of many equal values",
        QUANTIZED,
        "mean = largest + jnp.mean(size - largest, axis, keepdims=True)",
        "mean = jnp.mean(size, axis, keepdims=True)",
        TEST_SHRINK,
        "ternary_run_is_split",
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
        "weights near 0 change sides in the fraction of the first part",
        SPLITTING,
        "0.5 - total(weight * ~is_kept) / (2 * kept)",
        "0.5 + total(weight * ~is_kept) / (2 * kept)",
        TEST_QUANTIZED,
        "by_hand",
    ),
    Mutant(
        "the split is not compared with the ternary weights",
        SPLITTING,
        "    _check(parts, ternary, scale, axis, name)\n",
        "",
        TEST_QUANTIZED,
        "by_hand",
    ),
    Mutant(
        "both parts of a split kernel have the first one's scale",
        QUANTIZED,
        "    total += (p - q).astype(jnp.float32) * x_scale * spread(ratio)\n",
        "",
        TEST_QUANTIZED,
        "bit_by_bit",
    ),
    Mutant(
        "a split run is saved as integers, without the weights behind them",
        RECIPES,
        "says, is_saved_as_float=True)",
        "says)",
        TEST_SHRINK,
        "ternary_run_is_split",
    ),
    Mutant(
        "an export of a split network has the difference of both parts",
        "research/checkpoints/int8_weights.py",
        "found.sum(-2 if is_table else -3)",
        "np.diff(found, axis=-2 if is_table else -3)",
        TEST_QUANTIZED,
        "split_network",
    ),
    Mutant(
        "an export has the weights behind the integers",
        "research/run/export.py",
        '    if kind != "none":\n        saved',
        '    if kind == "split":\n        saved',
        TEST_SHRINK,
        "ternary_run_is_split",
    ),
    Mutant(
        "candidates are those of the masked text alone",
        AUGMENTATION,
        "self._fill(masked, beside, width=width)",
        "self._fill(masked, [], width=width)",
        TEST_AUGMENT,
        "candidates_of_the_model",
    ),
    Mutant(
        "the text beside a masked one has its token type",
        FILL,
        'arrays["token_type"] = is_beside.astype(np.int32)',
        'arrays["token_type"] = np.zeros_like(token)',
        "tests/generation/test_fill.py",
        "beside",
    ),
    Mutant(
        "tokens that go on a word are candidates",
        AUGMENTATION,
        'if is_text and text[:1] == " ":',
        "if is_text:",
        TEST_AUGMENT,
        "candidates_of_the_model",
    ),
    Mutant(
        "stop words are replaced",
        AUGMENTATION,
        "not word.isalpha() or word.lower() in self._stop_words",
        "not word.isalpha()",
        TEST_AUGMENT,
        "candidates_of_the_model",
    ),
    Mutant(
        "a pass keeps words with the probability",
        AUGMENTATION,
        "rng.random() < probability",
        "rng.random() >= probability",
        TEST_AUGMENT,
        "where_they_stand",
    ),
    Mutant(
        "copies of a text are written again",
        AUGMENTATION,
        'found.setdefault("".join([*parts, text[end:]]))',
        'found["".join([*parts, text[end:]]) + "\u200b" * len(found)] = None',
        TEST_AUGMENT,
        "where_they_stand",
    ),
    Mutant(
        "the second text of a row is replaced beside the last copy of the first",
        "launch/augment.py",
        "whole_rows.with_text(row, field, o)",
        "whole_rows.with_text(new[-1], field, o)",
        TEST_AUGMENT,
        "other_columns",
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
        "    grad_x = matmul(rounded, kernel.astype(dtype).T, grad.dtype)\n",
        "    grad_x = matmul(rounded, kernel.astype(dtype).T, grad.dtype)\n"
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
