"""Searches over a table of next tokens: known best texts, samples, and limits."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from research.generation.samplers import Rows, make_sampler
from research.generation.samplers.sample import Sampling, draw, draw_by_row
from research.generation.samplers.shared.draws import cut_tail
from research.generation.samplers.shared.left_to_right import Network
from tests.testing.example_batches import vocab

VOCAB = vocab(size=8, sentinels=0)
EOS = VOCAB.eos_id
A, B, C = VOCAB.ordinary_ids
START, UNK = VOCAB.bos_id, VOCAB.unk_id
WRITABLE = [EOS, UNK, A, B, C]


def chain(transitions):
    """[V, V] logits of a chain, of which only these steps are possible."""
    table = np.full((VOCAB.size, VOCAB.size), -np.inf, np.float32)
    for token, following in transitions.items():
        for after, probability in following.items():
            table[token, after] = np.log(probability)
    return table


def random_chain(seed):
    """[V, V] logits of a chain of which all steps are possible."""
    random = np.random.default_rng(seed)
    return random.normal(0, 1.5, (VOCAB.size, VOCAB.size)).astype(np.float32)


@functools.cache
def compiled(sampler):
    """A function of a table [V, V], prompts [B, L] and the rows' numbers [B]."""

    def run(table, prompt, rows):
        network = Network(
            lambda token, context: (table[token], context + 1),
            lambda context, count: jnp.repeat(context, count),
            lambda context, row: context[row],
        )
        context, logits = jnp.zeros(len(prompt), jnp.int32), table[prompt[:, -1]]
        length = jnp.full(len(prompt), prompt.shape[1], jnp.int32)
        prompts, rows = (prompt, length), Rows(None, rows)
        return sampler.decode(VOCAB, network, logits, context, prompts, rows)

    return jax.jit(run)


def write(table, prompts=((START,),), rows=None, **options):
    """What is written after prompts [B, L], on the host."""
    prompt = np.array(prompts, np.int32)
    rows = np.arange(len(prompt)) if rows is None else np.array(rows)
    run = compiled(make_sampler(**options))
    return jax.device_get(run(table, prompt, rows.astype(np.int32)))


def texts(written, row=0):
    """The tokens of each hypothesis of a row."""
    pairs = zip(written.token[row], written.length[row], strict=True)
    return [tuple(token[:length].tolist()) for token, length in pairs if length]


def all_texts(table, max_tokens, alpha):
    """Every text that ends and its score, the best first: (score, text)."""
    log_p = np.asarray(jax.nn.log_softmax(jnp.array(table), axis=-1), np.float64)
    found = []
    for length in range(1, max_tokens + 1):
        for text in itertools.product(WRITABLE[1:], repeat=length - 1):
            path = [START, *text, EOS]
            total = sum(log_p[a, b] for a, b in itertools.pairwise(path))
            found.append((total / ((5 + length) / 6) ** alpha, (*text, EOS)))
    return sorted(found, reverse=True)


GARDEN_PATH = chain(
    {
        START: {A: 0.6, B: 0.4},
        A: {A: 0.4, C: 0.3, EOS: 0.3},
        B: {C: 0.9, EOS: 0.1},
        C: {EOS: 1.0},
    }
)
"""Its best text is B C, of probability 0.36; greedy decoding begins with A."""


def test_beam_search_finds_the_best_text_that_greedy_decoding_misses():
    greedy = write(GARDEN_PATH, max_tokens=5)
    assert texts(greedy)[0][:2] == (A, A)
    found = write(GARDEN_PATH, method="beam", beams=2, length_penalty=0, max_tokens=5)
    assert texts(found)[0] == (B, C, EOS)
    np.testing.assert_allclose(np.exp(found.log_p[0, 0]), 0.36, rtol=1e-5)
    assert found.ended[0].all()


@pytest.mark.parametrize("alpha", [0.0, 0.6, 3.0])
def test_one_beam_is_greedy_decoding(alpha):
    for seed in range(4):
        options = {"max_tokens": 6, "min_tokens": 1}
        greedy = write(random_chain(seed), **options)
        beam = write(
            random_chain(seed), method="beam", beams=1, length_penalty=alpha, **options
        )
        assert texts(beam) == texts(greedy)
        np.testing.assert_allclose(beam.log_p, greedy.log_p, rtol=1e-6)
        np.testing.assert_array_equal(beam.ended, greedy.ended)


@pytest.mark.parametrize("alpha", [0.0, 0.6, 3.0])
def test_a_beam_of_all_texts_ranks_them_as_a_full_search(alpha):
    """Length penalty, ended texts that are kept, and the end of the search."""
    table, options = random_chain(5), {"method": "beam", "beams": 5 * 4 * 4}
    expected = all_texts(table, 3, alpha)
    found = write(table, length_penalty=alpha, max_tokens=3, **options)
    count = len(expected)
    assert texts(found)[:count] == [text for _, text in expected]
    scores = [score for score, _ in expected]
    np.testing.assert_allclose(found.score[0, :count], scores, rtol=1e-5)
    assert found.ended[0].sum() == count


def plain_beam_search(table, start, count, max_tokens, alpha):
    """Without an early end: the scores of the best `count` that ended."""
    log_p = np.asarray(jax.nn.log_softmax(jnp.array(table), axis=-1), np.float64)
    open_texts, ended = [(0.0, (start,))], []
    for length in range(1, max_tokens + 1):
        longer = [
            (total + log_p[text[-1], token], (*text, token))
            for total, text in open_texts
            for token in WRITABLE
        ]
        best, penalty = (
            sorted(longer, reverse=True)[:count],
            ((5 + length) / 6) ** alpha,
        )
        new = [(total, text[1:]) for total, text in best if text[-1] == EOS]
        ended += [(total / penalty, text) for total, text in new]
        open_texts = [pair for pair in best if pair[1][-1] != EOS]
    return sorted(ended, reverse=True)[:count]


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_the_early_end_loses_nothing(alpha):
    """Each row of a batch has the result of a search to the limit of length."""
    options = {"beams": 3, "length_penalty": alpha, "max_tokens": 8}
    for seed in range(4):
        table = random_chain(seed)
        found = write(table, [[start] for start in WRITABLE], method="beam", **options)
        for row, start in enumerate(WRITABLE):
            expected = plain_beam_search(table, start, 3, 8, alpha)
            count = len(expected)
            assert texts(found, row)[:count] == [text for _, text in expected]


def test_a_long_text_may_overtake_those_that_ended_early():
    """Two have ended after two tokens; the penalty of four makes the open one best."""
    table = chain(
        {
            START: {A: 0.6, EOS: 0.4},
            A: {EOS: 0.55, B: 0.45},
            B: {C: 1.0},
            C: {EOS: 1.0},
            EOS: {A: 1.0},  # which no text that has ended may follow
        }
    )
    options = {"beams": 2, "length_penalty": 1.0, "max_tokens": 4}
    found = write(table, method="beam", **options)
    assert texts(found) == [(A, B, C, EOS), (EOS,)]
    expected = [np.log(0.6 * 0.45) / (9 / 6), np.log(0.4)]
    np.testing.assert_allclose(found.score[0], expected, rtol=1e-5)


def test_a_text_that_has_ended_keeps_its_log_p_while_others_go_on():
    table = chain(
        {START: {EOS: 0.6, A: 0.4}, EOS: {A: 0.5, B: 0.5}, B: {A: 1.0}, A: {A: 1.0}}
    )
    found = write(table, [[START], [B]], max_tokens=4)
    assert texts(found) == [(EOS,)] and texts(found, 1) == [(A,) * 4]
    np.testing.assert_allclose(found.log_p[:, 0], [np.log(0.6), 0.0], atol=1e-6)


def test_open_texts_come_after_those_that_ended():
    loop = chain({START: {A: 0.7, EOS: 0.3}, A: {A: 1.0}})
    found = write(loop, method="beam", beams=2, max_tokens=3)
    assert texts(found) == [(EOS,), (A, A, A)]
    np.testing.assert_array_equal(found.ended, [[True, False]])
    alone = write(chain({START: {A: 1.0}, A: {EOS: 1.0}}), method="beam", max_tokens=3)
    assert texts(alone) == [(A, EOS)]
    np.testing.assert_array_equal(alone.length[0, 1:], 0)


def test_padding_bos_and_masks_are_never_written_and_eos_not_too_early():
    table = np.zeros((VOCAB.size, VOCAB.size), np.float32)
    table[:, [VOCAB.pad_id, VOCAB.bos_id, VOCAB.mask_id]] = 9
    table[:, EOS] = 5
    for method in ("greedy", "beam", "sample"):
        found = write(table, method=method, max_tokens=6, min_tokens=3)
        assert found.length[0, 0] >= 4
        for text in texts(found):
            assert EOS not in text[:3]
            assert set(text) <= set(WRITABLE)


def test_no_tokens_in_succession_are_written_twice():
    """Nothing is banned where a text has no room for so many."""
    cycle = chain({START: {A: 1.0}, A: {B: 0.9, EOS: 0.1}, B: {A: 0.6, EOS: 0.4}})
    prompt, most = (B, START), 5
    room = len(prompt) + most + 1
    for size in (2, 3, 4, room - 1, *range(room, 3 * room)):
        found = texts(write(cycle, [prompt], no_repeat_ngram=size, max_tokens=most))[0]
        path = [*prompt, *found]
        grams = [tuple(path[n : n + size]) for n in range(len(path) - size + 1)]
        assert len({*grams}) == len(grams)
        free = texts(write(cycle, [prompt], max_tokens=most))[0]
        assert (found == free) == (size > 3), size


def test_the_repetition_penalty_lowers_seen_tokens_alone():
    """Positive logits are divided, negative ones multiplied; so are the prompt's."""
    table = np.full((VOCAB.size, VOCAB.size), -9.0, np.float32)
    table[:, [A, B, C]] = [2.0, 1.5, -1.0]
    two = write(table, [[C, START]], max_tokens=5, repetition_penalty=2.0)
    assert texts(two) == [(A, B, A, A, A)]  # 2, 1.5; then 1, 0.75 and -2
    negative = write(table - 3, [[C, START]], max_tokens=3, repetition_penalty=2.0)
    assert texts(negative) == [(A, B, A)]  # -1, -1.5; then -2, -3 and -8
    first = write(table, [[A, START], [B, START]], max_tokens=1, repetition_penalty=1.5)
    assert texts(first, 0) == [(B,)] and texts(first, 1) == [(A,)]
    options = {"method": "beam", "beams": 2, "max_tokens": 4}
    beam = write(table, [[C, START]], repetition_penalty=2.0, **options)
    assert texts(beam)[0][:2] == (A, B)


def test_beams_of_hugging_face_have_the_penalty_on_log_p():
    """Of special tokens, too: transformers' `_beam_search` gives its processors log p,
    and what they return adds up to no probability of 1."""
    table, prompt = random_chain(1), (EOS, C, START)
    log_p = np.asarray(jax.nn.log_softmax(jnp.array(table), axis=-1), np.float64)

    def score(text):
        total, path = 0.0, [*prompt, *text]
        for at in range(len(prompt), len(path)):
            factor = 1.5 if path[at] in path[:at] else 1.0
            total += factor * log_p[path[at - 1], path[at]]
        return total

    written = [
        (*text, *end)
        for length in range(3)
        for text in itertools.product(WRITABLE[1:], repeat=length)
        for end in ([(EOS,)] if length < 2 else [(last,) for last in WRITABLE])
    ]
    expected = sorted(((score(text), text) for text in written), reverse=True)
    options = {"method": "beam", "beams": 40, "beam_rule": "huggingface"}
    options |= {"length_penalty": 0, "max_tokens": 3, "early_stopping": "never"}
    found = write(table, [prompt], repetition_penalty=1.5, **options)
    best = [text for _, text in expected[:10]]
    assert texts(found)[:10] == best
    np.testing.assert_allclose(
        found.score[0, :10], [each for each, _ in expected[:10]], rtol=1e-5
    )


@pytest.mark.parametrize("method", ["greedy", "sample", "beam"])
def test_each_of_several_tokens_ends_a_text(method):
    """And eos does not, unless it is one of them."""
    table = chain({START: {B: 1.0}, B: {EOS: 1.0}, EOS: {A: 1.0}, A: {C: 1.0}})
    options = {"method": method, "max_tokens": 4, "beam_rule": "huggingface"}
    for ends, text in (((C, A), (B, EOS, A)), ((A, EOS), (B, EOS))):
        found = write(table, ends=ends, **options)
        assert texts(found)[0] == text and found.ended[0, 0]
    none = write(table, ends=(C,), **options | {"max_tokens": 3})
    assert texts(none)[0] == (B, EOS, A) and not none.ended[0, 0]


def test_the_beam_stays_full_where_several_tokens_end_a_text():
    """Of two beams, four ends are better than the two that go on."""
    rest = {A: {C: 0.6, UNK: 0.4}, B: {C: 0.7, UNK: 0.3}}
    first = {EOS: 0.3, C: 0.25, UNK: 0.2, A: 0.15, B: 0.1}
    found = write(
        chain({START: first} | rest),
        method="beam",
        beams=2,
        beam_rule="huggingface",
        ends=(EOS, C, UNK),
        early_stopping="never",
        min_tokens=0,
        max_tokens=2,
        length_penalty=9.0,
    )
    assert texts(found) == [(A, C), (B, C)]


def test_samples_have_the_distribution_of_the_options():
    table = chain({START: {EOS: 0.4, A: 0.3, B: 0.2, C: 0.1}})
    options = {"method": "sample", "temperature": 0.5, "top_k": 3, "max_tokens": 1}
    token = write(table, [[START]] * 4000, **options).token[:, 0, 0]
    expected = np.exp(table[START]) ** 2
    expected[C] = 0
    actual = np.bincount(token, minlength=VOCAB.size) / len(token)
    np.testing.assert_allclose(actual, expected / expected.sum(), atol=0.03)


@pytest.mark.parametrize("temperature", [1e-6, 1e-37, 1e-44])
def test_a_temperature_near_0_gives_the_most_probable_token(temperature):
    """Also where the others are infinitely far below it in float32."""
    log_p = jnp.log(jnp.array([[0.3, 0.0, 0.1, 0.4, 0.2]] * 7))
    row, count = jnp.arange(7), jnp.int32(0)
    sampler = make_sampler(method="sample", temperature=temperature)
    assert draw(sampler, log_p, row, count).tolist() == [3] * 7
    each = Sampling(jnp.full(7, temperature), jnp.ones(7), row)
    assert draw_by_row(each, log_p, row, count).tolist() == [3] * 7


@pytest.mark.parametrize(
    ("top_k", "top_p", "kept"),
    [
        (0, 1.0, [0, 1, 2, 3, 4]),
        (2, 1.0, [0, 3]),
        (9, 1.0, [0, 1, 2, 3, 4]),
        (0, 0.01, [3]),
        (0, 0.39, [3]),
        (0, 0.41, [0, 3]),
        (0, 0.95, [0, 2, 3, 4]),
        (3, 0.7, [0, 3]),
        (2, 0.6, [0, 3]),  # of the two best the first has 4 / 7
    ],
)
def test_the_tail_is_cut(top_k, top_p, kept):
    p = np.array([[0.3, 0.0, 0.1, 0.4, 0.2]], np.float32)
    with np.errstate(divide="ignore"):
        log_p = np.log(p)
    cut = np.asarray(cut_tail(jnp.array(log_p), top_k, top_p))
    expected = np.full_like(log_p, -np.inf)
    expected[:, kept] = log_p[:, kept]
    np.testing.assert_array_equal(cut, expected)


def test_the_penalty_is_that_of_wu_et_al():
    penalty = make_sampler(method="beam", length_penalty=0.6).length_penalty_of(7)
    np.testing.assert_allclose(penalty, 12**0.6 / 6**0.6, rtol=1e-6)


@pytest.mark.parametrize(
    "wrong",
    [
        {"method": "nucleus"},
        {"top_p": 0.0, "method": "sample"},
        {"temperature": 0.0, "method": "sample"},
        {"beams": 0, "method": "beam"},
        {"max_tokens": 3, "min_tokens": 3},
    ],
)
def test_wrong_options_are_refused(wrong):
    (key, *_) = wrong
    with pytest.raises(ValueError, match=key):
        make_sampler(**wrong)
    if len(wrong) == 1 and key != "method":
        with pytest.raises(ValueError, match=key):
            make_sampler(wrong)
