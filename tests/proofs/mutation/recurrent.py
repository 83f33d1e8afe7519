"""Mutants of the LSTM."""

from tests.proofs.mutation import Mutant

LSTM = "research/networks/recurrent/lstm_stack.py"
LSTM_LAYER = "research/networks/recurrent/lstm_layer.py"
TEST_LSTM = "tests/networks/recurrent/test_lstm.py"
LM = "research/objectives/lm/lm.py"
TEST_PENALTIES = "tests/objectives/test_lm_penalties.py"
TEST_LAWS = "tests/laws/test_network.py"

MUTANTS = [
    Mutant(
        "weight dropout has one mask for all time",
        LSTM,
        'seed = dropout_seeds(module.make_rng("dropout"), *seeds)',
        "seed = dropout_seeds(jax.random.key(0), *seeds)",
        TEST_LSTM,
        "weight_dropout",
    ),
    Mutant(
        "weight dropout is silently inactive",
        LSTM,
        "params = drop_weights(self, params)\n            inputs.append",
        "inputs.append",
        TEST_LSTM,
        "weight_dropout or each_place",
    ),
    Mutant(
        "a locked mask differs by position",
        LSTM,
        "position = jnp.zeros((1, 1, 1), jnp.int32)",
        "position = jnp.arange(x.shape[1], dtype=jnp.int32)[:, None]",
        TEST_LSTM,
        "locked_mask",
    ),
    Mutant(
        "a word is dropped in some places and not in others",
        LSTM,
        '_hashed(module, x, "word", (), token_BL[..., None], zero)',
        '_hashed(module, x, "word", x.shape[:1], token_BL[..., None], zero)',
        TEST_LSTM,
        "dropped_word",
    ),
    Mutant(
        "changes of states are of those with dropout",
        LM,
        "change = states.raw[:, 1:] - states.raw[:, :-1]",
        "change = states.states[:, 1:] - states.states[:, :-1]",
        TEST_PENALTIES,
        "released_code",
    ),
    Mutant(
        "changes count from one text to the next",
        LM,
        "same = (segment[:, 1:] == segment[:, :-1]) & (segment[:, 1:] > 0)",
        "same = segment[:, 1:] > 0",
        TEST_PENALTIES,
        "released_code",
    ),
    Mutant(
        "the average of steps has the first iterate",
        "research/optimize/moving_average.py",
        "jnp.maximum(1, count - start - 1)",
        "jnp.maximum(1, count - start)",
        "tests/program/test_moving_average.py",
        "of_pytorch",
    ),
    Mutant(
        "a forget gate begins half closed",
        LSTM_LAYER,
        "jax.nn.sigmoid(f + forget_bias)",
        "jax.nn.sigmoid(f)",
        TEST_LSTM,
        "formula or projection",
    ),
    Mutant(
        "the gates are read in the order of PyTorch, as blocks",
        LSTM_LAYER,
        "jnp.moveaxis(gates_BG.reshape(*cell_BC.shape, 4), -1, 0)",
        "jnp.split(gates_BG, 4, axis=-1)",
        TEST_LSTM,
        "projection",
    ),
    Mutant(
        "a segment reads the hidden state of the one before",
        LSTM_LAYER,
        "kept = jnp.where(continues, hidden, 0)",
        "kept = hidden",
        TEST_LSTM,
        "begin_anew",
    ),
    Mutant(
        "a segment goes on with the cell of the one before",
        LSTM_LAYER,
        "cell_before = jnp.where(continues, cell, 0)",
        "cell_before = cell",
        TEST_LSTM,
        "begin_anew",
    ),
    Mutant(
        "the next position reads the hidden state without its projection",
        LSTM_LAYER,
        "new_hidden = matmul(operand, projection_CD, dtype)\n",
        "new_hidden = operand[:, : projection_CD.shape[1]]\n",
        TEST_LSTM,
        "projection",
    ),
    Mutant(
        "padding moves the cell",
        LSTM_LAYER,
        "cell = jnp.where(is_text, new_cell, cell)",
        "cell = new_cell",
        TEST_LSTM,
        "padding",
    ),
    Mutant(
        "the state after a row is that of padding",
        LSTM_LAYER,
        "    last_B = jnp.take_along_axis(all_BM, text_BL[:, -1:], axis=1)[:, 0]\n",
        "    last_B = all_BM[:, -1]\n",
        TEST_LAWS,
        "lstm",
    ),
    Mutant(
        "a row whose mems have no segment continues them",
        LSTM,
        'jnp.where(state.segment[:, 0] > 0, group["segment"][:, 0], 0)',
        'group["segment"][:, 0]',
        TEST_LAWS,
        "lstm",
    ),
]
