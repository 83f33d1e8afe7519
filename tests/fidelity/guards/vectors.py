"""Guards of word vectors: what is kept of a text, and which formulas hold."""

import jax
import numpy as np

from research.objectives.corruption import word_counts, word_windows
from research.objectives.losses.word_scores import negative_log_sigmoid
from tests.fidelity.guards.registry import guard, phrase
from tests.fidelity.our_batches import VOCAB, full_rows, objective_of
from tests.fidelity.table import System
from tests.testing.example_batches import keys


@guard("sigmoid")
def sigmoid(system: System):
    """From the gradient at 0 and beyond 6: the tool's table has 0.494 and 0."""
    at = jax.vmap(jax.grad(negative_log_sigmoid))(np.float32([0.0, 7.0, -7.0]))
    exact = np.allclose(at, -1 / (1 + np.exp([0.0, 7.0, -7.0])), rtol=1e-5)
    table = np.allclose(at, [-0.506, 0.0, -1.0], atol=1e-6)
    return phrase({"exact": exact, "a table of 1000 values, constant beyond 6": table})


@guard("subsampling")
def subsampling(system: System):
    """The rate of a word of 100 among a million, of which a tenth of t is one word."""
    count = np.zeros(VOCAB.size, np.int64)
    count[VOCAB.ordinary_ids[:2]] = 100, 999_900
    rates = word_counts.keep_rates(VOCAB._replace(token_count=count), 1e-5)
    rate, ratio = rates[VOCAB.ordinary_ids[0]], 0.1
    return phrase(
        {
            "sqrt(t N / c) + t N / c": np.isclose(rate, ratio**0.5 + ratio),
            "sqrt(t N / c)": np.isclose(rate, ratio**0.5),
        }
    )


@guard("words that are unknown or left out")
def words_that_are_left_out(system: System):
    """Of a text whose every other word is unknown, whether the rest are neighbours."""
    (objective, _), length = objective_of(system), 32
    example = full_rows(objective, length, 20)
    token = example.token.copy()
    token[:, ::2] = VOCAB.unk_id
    example = example._replace(token=token)
    words = word_windows.keep_words(example, keys(len(token)), VOCAB, length, 0.0)
    near = word_windows.find_contexts(words, keys(len(token)), objective.window)
    inner = near[:, 1, [objective.window - 1, objective.window]]
    return phrase({"take no room in a window": inner.all()})


@guard("distance of contexts")
def distance_of_contexts(system: System):
    """Whether each distance occurs as often as under the uniform law."""
    (objective, _), rows = objective_of(system), 2000
    window, length = objective.window, 2 * objective.window + 1
    token = np.full((rows, length), VOCAB.ordinary_ids[0], np.int32)
    words = word_windows.Words(token, 0 * token, np.full(rows, length))
    near = word_windows.find_contexts(words, keys(rows), window)[:, window]
    rate = near.mean(axis=0)[window:]
    expected = (window - np.arange(window)) / window
    found = np.abs(rate - expected).max() < 4.5 * 0.5 / rows**0.5
    return phrase({"uniform from 1 to the window, for each centre": found})
