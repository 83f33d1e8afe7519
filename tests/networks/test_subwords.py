"""Vectors of words from their n-grams: fastText's numbers, pieces and step.

Golden values are of the formulas of its released code; hashes of Unicode texts were
compared with gensim's tests.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from launch.config import load_config
from launch.measure.placeholder_vocab import placeholder_vocab
from research import networks, objectives
from research.contract.errors import UserError
from research.networks.words.subwords import Ngrams, WordRows, find_ngrams, ngram_hash
from tests.objectives.test_skipgram import example_of, words
from tests.testing.example_batches import keys, vocab
from tests.testing.model_options import model_options

TOOL = Ngrams(3, 6, 2_000_000)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("", 2166136261),
        ("a", 3826002220),
        ("<where>", 2319392596),
        ("é", 1023043777),
        ("<é>", 1002806231),
        ("команда", 1725507386),
        ("日本", 4164387409),
    ],
)
def test_hashes_are_the_tools(text, number):
    assert ngram_hash(text) == number


def test_ngrams_are_the_tools():
    assert TOOL.of("where")[::4][:3] == [167652, 420941, 1473420]
    spelled = "<wh <whe <wher <where whe wher where where> her here here> ere ere> re>"
    assert TOOL.of("where") == [ngram_hash(g) % TOOL.buckets for g in spelled.split()]
    assert TOOL.of("on") == [ngram_hash(g) % 2_000_000 for g in ("<on", "<on>", "on>")]
    short = Ngrams(1, 3, 2**32).of("a")
    assert short == [ngram_hash(g) for g in ("<a", "<a>", "a", "a>")]
    assert TOOL.of("") == [] and len(TOOL.of("日本")) == 3, "characters, not bytes"


def tables(**changes):
    return model_options(
        network="tables", tie_embeddings=False, table_init="fasttext", **changes
    )


def test_a_step_is_the_tools():
    """A word of two pieces, itself and <a>, whose mean is (.2, .1)."""
    info = words([1] * 4)._replace(spelling=("",) * 5 + ("a", "b", "c", "d"))
    objective = objectives.make_objective(
        "skipgram", window=1, subsample=0.0, negatives=1
    )
    length, rate = 2, 0.05
    batch = objective.corrupt(example_of([[0, 1]], info), keys(1), info, length)
    only = np.arange(4) == 3  # the centre 1, read from 0
    assert batch["weight"][0].tolist() == [0, 1, 1, 0]
    only = (batch["target"] == 6) & (batch["weight"] > 0)
    batch |= {"weight": batch["weight"] * only}
    batch |= {"target_negative": np.full((1, 4, 1), 7, np.int32)}
    after = {}
    for gradient in ("sum", "mean"):
        options = tables(width=2, buckets=9, max_ngram=3, piece_gradient=gradient)
        module = networks.build(options, objective.needs(info), info)
        found = find_ngrams(info.spelling, options.ngrams)
        (ngram,) = found.ngram[found.word == 5]
        own, shared, output = np.zeros((3, 128, 2), np.float32)
        own[5], shared[ngram] = (0.1, -0.2), (0.3, 0.4)
        output[[6, 7]] = (0.5, 0.1), (-0.2, 0.3)
        token = {"embedding": own, "ngrams": shared}
        params = {"token": token, "output": {"embedding": output}}

        def loss(params, module=module):
            score = lambda net: objective.loss(net, batch, None)[0]  # noqa: E731
            return networks.apply(module, params, score)["skipgram"].total

        grads = jax.device_get(jax.grad(loss)(jax.tree.map(jnp.asarray, params)))
        out = output - rate * grads["output"]["embedding"]
        expected = [(0.50472528, 0.10236264), (-0.204975, 0.2975125)]
        np.testing.assert_allclose(out[[6, 7]], expected, rtol=1e-6)
        own, shared = (token[n] - rate * grads["token"][n] for n in token)
        after[gradient] = np.stack([own[5], shared[ngram]])
        own[5] = shared[ngram] = 0
        assert not own.any() and not shared.any()
    whole = np.array([(0.11678819, -0.20509986), (0.31678819, 0.39490014)])
    np.testing.assert_allclose(after["sum"], whole, rtol=1e-6)
    start = np.array([(0.1, -0.2), (0.3, 0.4)])
    np.testing.assert_allclose(after["mean"], (start + whole) / 2, rtol=1e-6)


def test_words_are_the_means_of_their_pieces_also_those_that_the_text_lacks():
    spelling = *[""] * 5, "where", "here", "日本"
    info = vocab(size=8, sentinels=0)._replace(spelling=spelling)
    options = tables(width=3, buckets=50)
    numbers = find_ngrams(spelling, options.ngrams).numbers.tolist()
    own, shared = np.random.default_rng(0).normal(size=(2, 128, 3)).astype(np.float32)
    tables_of = {"embedding": own, "ngrams": shared}
    rows = WordRows(tables_of, spelling, options.ngrams)
    module = networks.build(options, networks.Needs(pattern="self"), info)
    token = np.arange(8, dtype=np.int32)[None]
    params = {"token": tables_of}
    states = networks.apply(module, params, lambda net: net.states({"token": token}))
    np.testing.assert_allclose(states[0], rows.vectors, rtol=1e-5)

    def mean(ngrams, *more):
        known = [shared[numbers.index(n)] for n in ngrams if n in numbers]
        return np.mean([*more, *known], axis=0)

    for vector, word, expected in zip(own, spelling, rows.vectors, strict=False):
        found = mean(options.ngrams.of(word), vector)
        np.testing.assert_allclose(found, expected, rtol=1e-5)
    ngrams = options.ngrams.of("wherever")
    assert not set(ngrams) <= {*numbers}, "some n-grams no word has"
    np.testing.assert_allclose(rows("wherever"), mean(ngrams), rtol=1e-5)
    assert (rows("") == 0).all()


@pytest.mark.parametrize(
    ("needs", "changes", "message"),
    [
        ({}, {"spelling": None}, "spelling of words.*data.vocabulary=words"),
        ({"token_bias": True}, {}, "but no biases"),
    ],
)
def test_what_ngrams_do_not_serve_is_refused(needs, changes, message):
    needs = networks.Needs(pattern="self", **needs)
    with pytest.raises(UserError, match=message):
        networks.build(tables(buckets=9), needs, vocab()._replace(**changes))
    with pytest.raises(
        UserError, match=r"max_ngram is 4; .* at least model.min_ngram, 5"
    ):
        tables(buckets=9, min_ngram=5, max_ngram=4)


def test_a_vocabulary_without_text_has_words_of_its_own():
    config = load_config("experiments/fasttext.py:tiny")
    spelling = placeholder_vocab(config).spelling
    made = [word for word in spelling if word]
    assert len(spelling) == config.data.vocabulary_size
    assert len({*made}) == len(made) == len(spelling) - 5 - config.data.sentinels
