"""Guards of word vectors: what is kept of a text, and which formulas hold."""

import tempfile
from pathlib import Path

import jax
import numpy as np

from research.config.config import Config
from research.data.cooccurrences import count_cells
from research.data.order.permutation import permute
from research.networks.words.subwords import Ngrams
from research.objectives.vectors import word_counts, word_windows
from research.objectives.vectors.word_scores import negative_log_sigmoid
from research.optimize.optimizer import make_optimizer
from tests.fidelity.guards.registry import guard, phrase
from tests.fidelity.our_batches import VOCAB, full_rows, objective_of
from tests.fidelity.table import System
from tests.testing.example_batches import keys


@guard("sigmoid")
def sigmoid(system: System):
    """From the gradient at 0 and beyond 8, where tables have 0.494 and 0."""
    at = jax.vmap(jax.grad(negative_log_sigmoid))(np.float32([0.0, 9.0, -9.0]))
    exact = np.allclose(at, -1 / (1 + np.exp([0.0, 9.0, -9.0])), rtol=1e-5)
    return phrase({"exact": exact})


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


@guard("N of subsampling")
def tokens_of_subsampling(system: System):
    """From a word of 100 among 10,000, beside 90,000 unknown words and sentence ends;
    t is a hundredth."""
    count = np.zeros(VOCAB.size, np.int64)
    count[VOCAB.ordinary_ids[:2]] = 100, 9_900
    count[[VOCAB.unk_id, VOCAB.eos_id]] = 60_000, 30_000
    rates = word_counts.keep_rates(VOCAB._replace(token_count=count), 1e-2)
    rate = rates[VOCAB.ordinary_ids[0]]
    return phrase(
        {
            "the words of the vocabulary": np.isclose(rate, 1**0.5 + 1),
            "every token, also rare words and each line's </s>": np.isclose(
                rate, 10**0.5 + 10
            ),
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


@guard("what predicts a word")
def what_predicts_a_word(system: System):
    """Of each pair of a word and one in its window, whether the first is the target or
    is read."""
    objective, length = objective_of(system)[0], 4
    example = full_rows(objective, length, 50)
    batch = objective.corrupt(example, keys(50), VOCAB, length)
    centre = np.repeat(np.arange(batch["token"].shape[1]), 2 * objective.window)
    token = batch["token"][:, centre]
    used, target = batch["weight"] > 0, batch["target"]
    read = np.take_along_axis(batch["token"], batch["scored"], axis=1)
    return phrase(
        {
            "the pieces of each word in its window": (target == token)[used].all(),
            "the pieces of the word in whose window it is": (read == token)[used].all(),
        }
    )


@guard("n-grams of a word")
def ngrams_of_a_word(system: System):
    """Of é alone, whose bytes are above 127: its three n-grams of one or two."""
    signed, unsigned = (
        [fnv_1a(t, s) for t in ("<é", "é", "é>")] for s in (True, False)
    )
    found = Ngrams(1, 2, 2**32).of("é")
    name = "of <word>, but < and > alone; numbered by FNV-1a of"
    of_signed, of_unsigned = found == signed, found == unsigned
    return phrase({f"{name} signed bytes": of_signed, f"{name} bytes": of_unsigned})


def fnv_1a(text: str, signed: bool) -> int:
    """The hash of 32 bits (Fowler, Noll and Vo)."""
    number = 2166136261
    for byte in np.frombuffer(text.encode(), np.int8 if signed else np.uint8):
        number = (number ^ int(byte) % 2**32) * 16777619 % 2**32
    return number


@guard("pairs of a text")
def pairs_of_a_text(system: System):
    """Of three words and a rare one in a line, and another line."""
    words = ["a", "b", "c"]
    with tempfile.TemporaryDirectory() as folder:
        cells = count_cells(["a x b c", "a"], words, 2, Path(folder))
        found = {words[k // 3] + words[k % 3]: x for k, x in cells.tolist()}
    expected = {"ab": 1.0, "ba": 1.0, "bc": 1.0, "cb": 1.0, "ac": 0.5, "ca": 0.5}
    name = "1 / distance, to both sides, within a line, without rare words"
    return phrase({name: found == expected})


@guard("vectors that are written")
def vectors_that_are_written(system: System):
    objective, _ = objective_of(system)
    params = {"token": {"embedding": 1.0}, "output": {"embedding": 10.0}}
    written = objective.word_table(params)
    return phrase({"w + v": written == 11.0, "w": written == 1.0})


@guard("rate of biases")
def rate_of_biases(system: System):
    """From the first step after a gradient of 1 of a vector's entry and of a bias."""
    config = system.config(system.sizes[0])
    params = {"token": np.ones(1), "input_bias": np.ones(1)}
    optimizer = make_optimizer(Config.of(config).optimizer, config.train.steps)
    update, _ = optimizer.update(params, optimizer.init(params), params)
    vector, bias = (abs(float(update[name][0])) for name in params)
    return phrase({"that of vectors": bias == vector, "1": np.isclose(bias, 1)})


@guard("gradient of an entry")
def gradient_of_an_entry(system: System):
    """Of a cell whose logarithm is 1000 and whose vectors are 1."""
    objective, _ = objective_of(system)
    ones = np.ones((1, 1, 1), np.float32)
    batch = {name: ones[0] for name in ("weight", "target_log")}
    batch |= {"target": np.zeros((1, 1), np.int32)}
    batch["target_log"] = 1000 * ones[0]

    class Net:
        """The methods that the loss calls, with vectors of ones."""

        def __init__(self, feature):
            self.feature = feature

        def states(self, batch):
            return self.feature

        def readout(self, states):
            return states, ones[0], np.zeros(1, np.float32)

        def token_bias(self, batch):
            return 0.0

    def loss(feature):
        return objective.loss(Net(feature), batch, None)[0]["glove"].total

    grad = np.abs(jax.grad(loss)(ones)).max()
    return phrase({"at most 100": grad <= 100, "as it is": np.isclose(grad, 999)})


@guard("order of cells")
def order_of_cells(system: System):
    """Of a hundred rows in two epochs."""
    first, second = (permute(np.arange(100), 100, seed=0, epoch=n) for n in (0, 1))
    return phrase(
        {
            "one, in all iterations": (first == second).all(),
            "another in each epoch": (first != second).any(),
        }
    )


@guard("words of a sentence")
def words_of_a_sentence(system: System):
    """The most of 20 rows of 1000 words, of which subsampling leaves about half."""
    (objective, length) = objective_of(system)
    count = np.full(VOCAB.size, 100, np.int64)
    rate = word_counts.keep_rates(VOCAB._replace(token_count=count), 3e-4)
    assert 0.3 < rate[VOCAB.ordinary_ids[0]] < 0.7
    width = objective.text_spec(length).length
    words = word_windows.keep_words(
        full_rows(objective, length, 20),
        keys(20),
        VOCAB._replace(token_count=count),
        length,
        3e-4,
    )
    left_out = width == length and words.length.max() < length
    return phrase({f"{length}, of which some are left out": left_out})
