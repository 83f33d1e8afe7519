"""Mutants of the LSTM."""

from tests.proofs.mutation import Mutant

LSTM = "research/networks/lstm.py"
TEST_LSTM = "tests/networks/test_lstm.py"
TEST_LAWS = "tests/laws/test_network.py"

MUTANTS = [
    Mutant(
        "a forget gate begins half closed",
        LSTM,
        "jax.nn.sigmoid(f + 1)",
        "jax.nn.sigmoid(f)",
        TEST_LSTM,
        "formula or projection",
    ),
    Mutant(
        "the gates are read in the order of PyTorch, as blocks",
        LSTM,
        "jnp.moveaxis(gates_BG.reshape(*cell.shape, 4), -1, 0)",
        "jnp.split(gates_BG, 4, axis=-1)",
        TEST_LSTM,
        "projection",
    ),
    Mutant(
        "a segment reads the hidden state of the one before",
        LSTM,
        "kept = jnp.where(continues, hidden, 0)",
        "kept = hidden",
        TEST_LSTM,
        "begin_anew",
    ),
    Mutant(
        "a segment goes on with the cell of the one before",
        LSTM,
        "* jnp.where(continues, cell, 0)",
        "* cell",
        TEST_LSTM,
        "begin_anew",
    ),
    Mutant(
        "the next position reads the hidden state without its projection",
        LSTM,
        "new_hidden = matmul(new_hidden.astype(operand_dtype), projection_CD, dtype)\n",
        "new_hidden = new_hidden[:, : hidden.shape[1]]\n",
        TEST_LSTM,
        "projection",
    ),
    Mutant(
        "padding moves the cell",
        LSTM,
        "cell = jnp.where(is_text, new_cell, cell)",
        "cell = new_cell",
        TEST_LSTM,
        "padding",
    ),
    Mutant(
        "the state after a row is that of padding",
        LSTM,
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
