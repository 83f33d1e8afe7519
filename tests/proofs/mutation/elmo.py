"""Mutants of ELMo: characters, two directions, sampled softmax."""

from tests.proofs.mutation import Mutant

CHARACTERS = "research/networks/shared/characters.py"
LSTM = "research/networks/recurrent/lstm_stack.py"
LSTM_LAYER = "research/networks/recurrent/lstm_layer.py"
TWO = "research/networks/recurrent/two_lstms.py"
SAMPLED = "research/objectives/lm/sampled_softmax.py"
TEST = "tests/networks/test_elmo.py"
TEST_SAMPLED = "tests/objectives/lm/test_sampled_softmax.py"

MUTANTS = [
    Mutant(
        "model.scale_embeddings leaves vectors of characters as they are",
        CHARACTERS,
        "        found = found * options.width**0.5 if options.scale_embeddings "
        "else found\n",
        "",
        TEST,
        "vectors_of_characters",
    ),
    Mutant(
        "words are spelled without an end",
        CHARACTERS,
        "jnp.where(position == size, END_WORD, after)",
        "jnp.where(position == size, PAD, after)",
        TEST,
        "spelled",
    ),
    Mutant(
        "a highway carries what it should transform",
        CHARACTERS,
        "x_NF = gate * new_NF + (1 - gate) * x_NF",
        "x_NF = gate * x_NF + (1 - gate) * new_NF",
        TEST,
        "highway",
    ),
    Mutant(
        "all chunks of distinct tokens but the first are skipped",
        CHARACTERS,
        "first >= 0,",
        "first == distinct_N[0],",
        TEST,
        "distinct_tokens",
    ),
    Mutant(
        "values of cells are cut after they are read",
        LSTM_LAYER,
        "    new_cell = _cut(new_cell, options.cell_clip)\n",
        "",
        TEST,
        "are_cut",
    ),
    Mutant(
        "projections are not cut",
        LSTM_LAYER,
        "new_hidden = _cut(new_hidden, options.projection_clip)",
        "pass",
        TEST,
        "are_cut",
    ),
    Mutant(
        "the first layer has a residual, too",
        LSTM,
        "x = x + result.states if n and options.residual else result.states",
        "x = x + result.states if options.residual else result.states",
        TEST,
        "residual",
    ),
    Mutant(
        "states of the second direction stay in its order",
        TWO,
        "            _turn(back.states),\n            _turn(back.raw),\n",
        "            back.states,\n            back.raw,\n",
        TEST,
        "turned_texts",
    ),
    Mutant(
        "both directions read from the start",
        TWO,
        "return jnp.flip(x, axis=1)",
        "return jnp.asarray(x)",
        TEST,
        "turned_texts",
    ),
    Mutant(
        "a drawn target counts twice",
        SAMPLED,
        "(drawn_11S == target[..., None]) | (drawn_11S == size)",
        "(drawn_11S == size) | (target[..., None] < 0)",
        TEST_SAMPLED,
        "left_out",
    ),
    Mutant(
        "words are drawn by a float32, which has too few values for large vocabularies",
        SAMPLED,
        'bits = jax.random.bits(key, (count,), "uint32")',
        "bits = (jax.random.bits(key, (count,)) >> 9 << 9).astype(jnp.uint32)",
        TEST_SAMPLED,
        "in_whose_share",
    ),
    Mutant(
        "logits are corrected by the rate of one draw",
        SAMPLED,
        "never = count * jnp.log1p(",
        "never = jnp.log1p(",
        TEST_SAMPLED,
        "left_out or law",
    ),
    Mutant(
        "the target's logit is not corrected",
        SAMPLED,
        "    true_BK += correction(target)\n",
        "",
        TEST_SAMPLED,
        "left_out",
    ),
    Mutant(
        "evaluations have the terms of training",
        "research/program/setup.py",
        "for name, each in eval_boxed.sums.items()",
        "for name, each in boxed.sums.items()",
        "tests/evaluation/test_eval_length.py",
        "terms_of_its_own",
    ),
    Mutant(
        "evaluations compare words that are drawn",
        "research/objectives/lm/lm.py",
        '"temporal_penalty": 0.0, "sampled_words": 0}',
        '"temporal_penalty": 0.0}',
        TEST_SAMPLED,
        "evaluations",
    ),
    Mutant(
        "both directions draw the same words",
        "research/objectives/lm/lm.py",
        "arrays, own_key)",
        "arrays, key)",
        TEST_SAMPLED,
        "words_of_its_own",
    ),
]
