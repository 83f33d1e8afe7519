"""The sample of lines depends on the text alone, and has the size that is asked for."""

import hashlib
from collections import Counter
from types import SimpleNamespace

import pytest

from research.data.read.corpus import join_corpora
from research.data.tokenize import tokenizer_sample
from tests.testing.fake_corpus import corpus_of, make_lines


def sample(corpus, **options) -> list[str]:
    """The sampled lines of a corpus; see `tokenizer_sample.Options`."""
    options = tokenizer_sample.Options(**options)
    lines = tokenizer_sample.sample_lines(corpus, options)
    found = list(lines)
    assert found == list(lines)  # they can be read again
    assert abs(sum(len(line.encode()) for line in found) - lines.num_bytes) < 500
    return found


@pytest.mark.parametrize("max_bytes", [1, 900, 5_000, 10_000])
def test_the_sample_is_the_lines_with_the_smallest_hashes(monkeypatch, max_bytes):
    """However often the lines that are too many are dropped while text is read."""
    monkeypatch.setattr(tokenizer_sample, "MAX_LINE_BYTES", 400)
    lines = make_lines(2, 300) + ["the same line"] * 99 + ["b"]
    whole = sample(corpus_of(lines))
    assert sorted(whole) == sorted(lines)
    digests = [hashlib.blake2b(line.encode(), digest_size=6).digest() for line in whole]
    assert digests == sorted(digests)
    some = sample(corpus_of(lines), max_bytes=max_bytes)
    assert some == whole[: len(some)]
    sizes = [len(line.encode()) for line in some]
    assert sum(sizes[:-1]) < max_bytes <= sum(sizes)
    assert sample(corpus_of(lines[::-1]), max_bytes=max_bytes) == some


def test_lines_of_equal_hash_are_sampled_in_an_order_of_their_own(monkeypatch):
    class Hash(SimpleNamespace):
        def digest(self):
            return bytes(6)

    monkeypatch.setattr(hashlib, "blake2b", lambda line, digest_size: Hash())
    for lines in (["a", "c", "b"], ["c", "b", "a"]):
        assert sample(corpus_of(lines)) == ["c", "b", "a"]
        assert sample(corpus_of(lines), max_bytes=2) == ["c", "b"]


@pytest.mark.parametrize("keep_whitespace", [False, True])
def test_lines_that_are_too_long_are_cut(monkeypatch, keep_whitespace):
    lines = [*make_lines(2, 30), "中文" * 99, "x" * 199, "a  " * 80]
    monkeypatch.setattr(tokenizer_sample, "MAX_LINE_BYTES", 60)
    parts = sample(corpus_of(lines), keep_whitespace=keep_whitespace)
    assert max(len(part.encode()) for part in parts) <= 60
    short = Counter(word for line in lines for word in line.split() if len(word) < 60)
    assert short <= Counter(word for part in parts for word in part.split())
    spaces = {} if keep_whitespace else {" ": ""}
    characters = [
        Counter("".join(texts).translate(str.maketrans(spaces)))
        for texts in (lines, parts)
    ]
    assert characters[0] == characters[1]


def test_an_alpha_sets_the_rates_of_joined_corpora():
    texts = [make_lines(seed, 40 * seed) for seed in (1, 4)]
    corpora = [corpus_of(lines, str(len(lines))) for lines in texts]
    both = join_corpora(corpora)
    sizes = [sum(len(line.encode()) for line in lines) for lines in texts]
    assert sorted(sample(both)) == sorted(texts[0] + texts[1])
    for alpha, max_bytes in ((0.5, 2**23), (0.3, 2**23), (0.5, 3000)):
        lines = sample(both, alpha=alpha, max_bytes=max_bytes)
        own = [[line for line in lines if line in set(text)] for text in texts]
        assert own[0] + own[1] == lines
        total = min(max_bytes, sum(sizes))
        for sampled, size in zip(own, sizes, strict=True):
            expected = total * (size**alpha / sum(s**alpha for s in sizes))
            num_bytes = sum(len(line.encode()) for line in sampled)
            assert -1 <= num_bytes - expected <= tokenizer_sample.MAX_LINE_BYTES
        if max_bytes > sum(sizes):  # all small-corpus lines, some repeated
            assert set(own[0]) == set(texts[0]) and len(own[0]) > len(texts[0])
            assert len(own[1]) == len(set(own[1])) < len(texts[1])
    assert sample(corpora[0], alpha=0.5) == sample(corpora[0])
