"""Mutants of networks and losses."""

from tests.proofs.mutation import Mutant

ATTENTION = "research/models/layers/attention.py"
DENSE_ATTENTION = "research/models/layers/dense_attention.py"
RELATIVE = "research/models/layers/relative.py"
POSITIONS = "research/models/layers/positions.py"
LOSSES = "research/objectives/losses/cross_entropy.py"
SOFTMAX = "research/objectives/losses/softmax.py"

TEST_ATTENTION = "tests/models/layers/test_attention.py"
TEST_RELATIVE = "tests/models/layers/test_relative.py"
TEST_POSITIONS = "tests/models/layers/test_positions.py"
TEST_NETWORK = "tests/models/test_transformer.py"
TEST_LOSSES = "tests/objectives/losses/test_cross_entropy.py"

MUTANTS = [
    Mutant(
        "fine-tuning starts from a new pooler: each head has its own",
        "research/models/layers/heads.py",
        "x = jnp.tanh(self.pooler(x))",
        'x = jnp.tanh(Dense(options, options.width, axes, name="dense")(x))',
        "tests/objectives/test_classify.py",
        "pooler_of_pretraining",
    ),
    Mutant(
        "the reference of all kernels forgets segments",
        "research/batch.py",
        "same = segment[:, :, None] == segment[:, None, :]",
        "same = (segment[:, :, None] > 0) & (segment[:, None, :] > 0)",
        "tests/objectives/test_lm.py",
        "documents_apart",
        pitfall=10,
    ),
    Mutant(
        "packed documents attend to each other",
        DENSE_ATTENTION,
        "(query_BL[:, :, None] == key_BM[:, None, :]) & (key_BM[:, None, :] > 0)",
        "(query_BL[:, :, None] > 0) & (key_BM[:, None, :] > 0)",
        TEST_ATTENTION,
        "a_state_depends_on_what_it_attends_to",
        pitfall=10,
    ),
    Mutant(
        "a decoder attends to the encoder's other documents",
        "research/models/blocks.py",
        '{"segment": group["segment"]}, {"segment": encoded.segment}',
        '{"segment": group["segment"] > 0}, {"segment": encoded.segment > 0}',
        "tests/models/test_encoder_decoder_and_electra.py",
        "the_encoders_same_segment",
        pitfall=10,
    ),
    Mutant(
        "the causal pattern ignores segments",
        DENSE_ATTENTION,
        "mask_BLM &= key_index <= query_index",
        "mask_BLM = key_index <= query_index",
        TEST_ATTENTION,
        "other_documents_bit_equal",
        pitfall=10,
    ),
    Mutant(
        "a query without keys outputs the mean of all values",
        DENSE_ATTENTION,
        "return jnp.moveaxis(jnp.where(has_keys, out_BHLK, 0), 1, 2)",
        "return jnp.moveaxis(jnp.where(has_keys, out_BHLK, out_BHLK), 1, 2)",
        TEST_ATTENTION,
        "a_query_without_keys",
        pitfall=10,
    ),
    Mutant(
        "a relative bias is dropped where there is a mask",
        DENSE_ATTENTION,
        "bias = jnp.where(mask_BLM[:, None], bias_BHLM, HIDDEN)",
        "bias = jnp.where(mask_BLM[:, None], 0 * bias_BHLM, HIDDEN)",
        TEST_ATTENTION,
        "attention_is_the_definition",
        pitfall=17,
    ),
    Mutant(
        "a relative bias has no gradient",
        DENSE_ATTENTION,
        "grad_bias.astype(bias.dtype),",
        "0 * grad_bias.astype(bias.dtype),",
        TEST_ATTENTION,
        "attention_is_the_definition",
        pitfall=17,
    ),
    Mutant(
        "T5's causal buckets look ahead",
        POSITIONS,
        "absolute = numpy.maximum(-distance, 0) if causal else numpy.abs(distance)",
        "absolute = numpy.abs(distance)",
        TEST_POSITIONS,
        "buckets_are_the_published_ones",
    ),
    Mutant(
        "T5's distances run from the key to the query",
        POSITIONS,
        "distance_BLM = key_BM[:, None, :] - query_BL[:, :, None]",
        "distance_BLM = query_BL[:, :, None] - key_BM[:, None, :]",
        TEST_POSITIONS,
        "relative_bias_is_its_tables_rows",
    ),
    Mutant(
        "learned positions are indices, whatever the position array contains",
        "research/models/layers/embeddings.py",
        'x = x + lookup(table, group["position"])',
        'x = x + lookup(table, jnp.arange(x.shape[1])[None] + 0 * group["position"])',
        TEST_POSITIONS,
        "positions_come_from_the_array",
    ),
    Mutant(
        "relative distances have the other sign",
        RELATIVE,
        "cosine * sin - sine * cos",
        "sine * cos - cosine * sin",
        TEST_RELATIVE,
        "published_formula",
    ),
    Mutant(
        "one bias for content and for position",
        RELATIVE,
        'query + biases_11HK["position_bias"], query_features.sinusoids',
        "query, query_features.sinusoids",
        TEST_RELATIVE,
        "published_formula",
    ),
    Mutant(
        "mems have smaller positions also in rows with decreasing positions",
        RELATIVE,
        "mems_BN = step_B1 * jnp.arange(-num_mems, 0)[None]",
        "mems_BN = abs(step_B1) * jnp.arange(-num_mems, 0)[None]",
        TEST_RELATIVE,
        "the_shift_of_rows",
    ),
    Mutant(
        "GPT-2's residual layers are counted by blocks, not by what is added",
        "research/models/layers/dense.py",
        "std = 0.02 * (2 * options.layers) ** -0.5",
        "std = 0.02 * options.layers**-0.5",
        "tests/models/test_initial_values.py",
        "gpt2_scales",
    ),
    Mutant(
        "T5's logits are scaled, although its initialisation already does it",
        ATTENTION,
        "relative, scale = None, 1.0 if t5 else key_width**-0.5",
        "relative, scale = None, key_width**-0.5",
        TEST_ATTENTION,
        "t5s_logits_are_not_scaled",
    ),
    Mutant(
        "LayerNorm does not subtract the mean",
        "research/models/layers/dense.py",
        "y = y - jnp.mean(y, axis=-1, keepdims=True)",
        "y = y - 0 * jnp.mean(y, axis=-1, keepdims=True)",
        "tests/models/layers/test_dense.py",
        "norms_are_the_definitions",
    ),
    Mutant(
        "rows that pad the vocabulary have a probability",
        "research/models/layers/heads.py",
        "bias_V = jnp.where(jnp.arange(len(bias_V)) < size, bias_V, HIDDEN)",
        "bias_V = jnp.where(jnp.arange(len(bias_V)) < size, bias_V, 0.0)",
        TEST_NETWORK,
        "rows_that_pad_the_vocabulary",
    ),
    Mutant(
        "means are over all slots, padding included",
        LOSSES,
        "return Term(total, jnp.sum(weight)), lax",
        "return Term(total, jnp.float32(weight.size)), lax",
        TEST_LOSSES,
        "the_loss_is_its_definition",
    ),
    Mutant(
        "a tie counts as correct, so that a constant model looks strong",
        SOFTMAX,
        "target_logit_BC > max_other_BC",
        "target_logit_BC >= max_other_BC",
        TEST_LOSSES,
        "constant_model",
        pitfall=14,
    ),
    Mutant(
        "a z-loss without a gradient",
        SOFTMAX,
        "factor_BC = weight_BC * (1 + 2 * options.z_loss * lse_BC) / sum_BC",
        "factor_BC = weight_BC * (1 + 0 * options.z_loss * lse_BC) / sum_BC",
        TEST_LOSSES,
        "implementations_agree_in_value_and_gradient",
    ),
    Mutant(
        "label smoothing gives probability to rows that pad the vocabulary",
        SOFTMAX,
        "used_V = jnp.arange(len(bias_V)) < options.size",
        "used_V = jnp.arange(len(bias_V)) < len(bias_V)",
        TEST_LOSSES,
        "padded_rows",
    ),
    Mutant(
        "XLM's biases start at 0, not as PyTorch's",
        "research/models/layers/dense.py",
        "return uniform(fan_in**-0.5, *names)",
        "return constant(0.0, *names)",
        "tests/models/test_initial_values.py",
        "xlm_initialises",
    ),
    Mutant(
        "BART's epsilon is RoBERTa's, not that of fairseq's default",
        "experiments/bart.py",
        "beta2=0.999, epsilon=1e-8",
        "beta2=0.999, epsilon=1e-6",
        "tests/test_official_optimizers.py",
        "bart",
    ),
]
