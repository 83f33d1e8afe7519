"""Data of every objective from real files: purity, evaluation, counts, errors."""

import numpy as np
import pytest

from research import objectives
from research.contract.errors import UserError
from tests.testing import small_data
from tests.testing.toy_objectives import assert_same_batch, concatenate

NAMES = [
    name for name in objectives.names() if name not in small_data.READ_ANNOTATED_TEXT
]


@pytest.fixture
def make(corpora, folder, lexicon):
    """make(corpus, objective, batch) -> Data; also fields of config.data."""

    def make(corpus, name, batch=8, **fields):
        config = small_data.config(corpora[corpus], folder / "cache", name)
        config.data.lexicon = lexicon
        config.train.batch = batch
        config.data.update(fields)
        return small_data.open_small(config)[0]

    return make


@pytest.fixture(params=["one", "mixture"])
def corpus(request):
    return request.param


MIXED = ("lm", "tlm", "sentences", "infoword")
"""An objective of each unit, which also a mixture is made for; the others' are long."""

each_corpus = pytest.mark.parametrize(
    ("name", "corpus"),
    [
        pytest.param(
            *(name, corpus),
            marks=[pytest.mark.long] * (corpus == "mixture" and name not in MIXED),
        )
        for name in NAMES
        for corpus in ("one", "mixture")
    ],
)


@each_corpus
def test_a_batch_is_a_function_of_data_seed_and_step(make, corpus, name):
    data, again = make(corpus, name), make(corpus, name)
    assert data.fingerprint == again.fingerprint
    last = 3 * data.train.num_examples // 8
    read = list(data.train.batches(0, None, last + 1))
    for step in (last, 0, last // 3, last // 3 + 1):  # also around an epoch's end
        assert_same_batch(read[step], again.train.batch(step))
        halves = make(corpus, name, batch=4).train
        both = concatenate(halves.batch(2 * step + half) for half in (0, 1))
        if not halves.source.contiguous:  # its rows depend on the batch size
            assert_same_batch(without_step(read[step]), without_step(both))
    for hosts in (1, 2, 4, 8):
        rows = [slice(i, i + 8 // hosts) for i in range(0, 8, 8 // hosts)]
        assert_same_batch(
            read[last], concatenate(again.train.batch(last, own) for own in rows)
        )
        assert_same_batch(
            read[1], concatenate(next(data.train.batches(1, own, 2)) for own in rows)
        )


def test_pairs_are_packed_anew_for_each_copy(make, corpus):
    """Epochs 0 and 2 have the first of two copies, epoch 1 the other; a batch depends
    on its step alone; with pairs=once all epochs have the same pairs.
    """
    settings = {"dupe_factor": 2, "pairs": "each_copy"}
    data, again = (make(corpus, "sentences", **settings) for _ in range(2))
    assert (
        data.fingerprint == again.fingerprint != make(corpus, "sentences").fingerprint
    )
    last = 5 * data.train.num_examples // 8
    read = list(data.train.batches(0, None, last + 1))
    for step in (last, 0, last // 5, last // 3):
        assert_same_batch(read[step], again.train.batch(step))
        own = [again.train.batch(step, slice(n, n + 4)) for n in (0, 4)]
        assert_same_batch(read[step], concatenate(own))
    found = [texts_of_epochs(data.train.source, n) for n in range(3)]
    assert found[0] == found[2] != found[1]
    assert len(found[0] & found[1]) < 0.9 * len(found[0])
    source = make(corpus, "sentences", dupe_factor=2).train.source
    once = [texts_of_epochs(source, n) for n in range(2)]
    assert once[0] == once[1] == found[0]


def texts_of_epochs(source, epoch: int) -> set[tuple]:
    """The texts that all corpora have in an epoch."""
    texts = set()
    for number in range(len(source.indices)):
        counter = np.arange(9 * source.sizes[number])
        epochs, position = source.locate_in_corpus(number, counter)
        position = position[epochs == epoch]
        corpus, each = np.full((1, len(position)), number)[0], position * 0 + epoch
        text, _ = source.raw_examples(corpus, position, each, 0, seed=0, shuffle=False)
        rows = zip(text.token, text.length, text.first_length, strict=True)
        texts |= {(number, first, *token[:size]) for token, size, first in rows}
    return texts


def has_text(rows):
    """[B] bool, from the first array of segments."""
    return next(rows[key] for key in rows if "segment" in key).any(axis=1)


def sorted_by_example(rows):
    """The rows that have text, sorted by the number of their example."""
    kept = {key: array[has_text(rows)] for key, array in rows.items()}
    return {key: array[np.argsort(kept["example"])] for key, array in kept.items()}


def without_step(batch):
    """The batch without its rows' training steps, which depend on the batch size."""
    return {name: array for name, array in batch.items() if name != "step"}


@each_corpus
def test_evaluation_scores_each_example_once(make, corpus, name):
    data = make(corpus, name)
    whole, num = concatenate(data.eval.evaluation()), data.eval.num_examples
    with_text = has_text(whole)
    assert sorted(whole["example"][with_text]) == [*range(num)]
    assert with_text[:num].all() or data.eval.source.contiguous
    for key, array in whole.items():
        if "weight" in key:
            assert not array[~with_text].any()
        if "segment" in key:
            expected = with_text
            if key == "ngram_segment":  # a text of one token has no n-gram
                expected = (whole["segment"] > 0).sum(axis=1) > 3
            np.testing.assert_array_equal(array.any(axis=1), expected)
    at_once = concatenate(make(corpus, name, batch=num).eval.evaluation())
    assert_same_batch(*map(sorted_by_example, (whole, at_once)))


def test_objectives_with_one_stride_read_the_same_text(make, corpus):
    units = {name: objectives.make_objective(name).text_spec(32).unit for name in NAMES}
    streams = [name for name, unit in units.items() if unit == "stream"]
    assert len(streams) > 3
    opened = {name: make(corpus, name, stride=20).train.source for name in streams}
    corpus, corpus_counter = opened["lm"].schedule.locate(np.arange(500))
    epoch, position = np.divmod(corpus_counter, opened["lm"].sizes[corpus])
    texts = {
        name: source.raw_examples(corpus, position, epoch, 0, seed=0, shuffle=True)[0]
        for name, source in opened.items()
    }
    for name, text in texts.items():
        width = min(text.token.shape[1], texts["lm"].token.shape[1])
        assert width >= 20, name
        np.testing.assert_array_equal(
            text.token[:, :width], texts["lm"].token[:, :width], err_msg=name
        )


def test_counts_of_tokens_examples_skipped_and_repeated(make):
    data = make("one", "lm", length=32, stride=0)
    counts = data.counts
    assert data.vocab.token_count.sum() == counts["train/tokens"]
    assert counts["train/skipped"] == counts["train/repeated"] == 0
    assert counts["train/examples"] == -(-counts["train/tokens"] // 32)
    again = make("one", "lm", length=32, stride=16).counts
    assert again["train/examples"] == -(-counts["train/tokens"] // 16)
    assert again["train/repeated"] > 0.9 * counts["train/tokens"]
    assert make("one", "lm", length=32, stride=40).counts["train/skipped"] > 0
    cut = make("one", "tlm", length=16).counts
    assert cut["train/skipped"] > 0 == cut["train/repeated"]


def test_alpha_sets_the_rates_by_the_tokens_of_each_corpus(make):
    given, flat, whole = (make("mixture", "lm", alpha=a) for a in (0.0, 0.5, 1.0))
    assert given.train.source.schedule.count.tolist() == [3, 7]
    for data, alpha in ((flat, 0.5), (whole, 1.0)):
        tokens = [index.stream.num_tokens for index in data.train.source.indices]
        rates = np.array(tokens) ** alpha / sum(size**alpha for size in tokens)
        for source in (data.train.source, data.eval.source):
            count = source.schedule.count
            np.testing.assert_allclose(count / count.sum(), rates, atol=1e-4)
    assert len({data.fingerprint for data in (given, flat, whole)}) == 3


def test_a_batch_is_of_one_corpus_and_each_example_is_read_once(make):
    data = make("mixture", "lm", mixing="batches")
    counts = data.counts
    of_corpora = [
        n for name, n in counts.items() if name.startswith("train/tokens of ")
    ]
    assert len(of_corpora) > 1 and sum(of_corpora) == counts["train/tokens"]
    source = data.train.source
    corpus, own = source.schedule.locate(np.arange(8 * 10 * 4))
    by_batch = corpus.reshape(-1, 8)
    assert (by_batch == by_batch[:, :1]).all()
    np.testing.assert_array_equal(np.bincount(by_batch[:, 0]), [12, 28])
    batch = concatenate(data.train.batches(0, None, 40))
    first = np.cumsum(source.sizes) - source.sizes
    from_corpus = np.searchsorted(first, batch["example"], side="right") - 1
    np.testing.assert_array_equal(from_corpus, corpus)
    for number, size in enumerate(source.sizes):
        read = batch["example"][(corpus == number) & (own < size)]
        assert len(set(read.tolist())) == len(read)
    rows = make("mixture", "lm")
    assert data.fingerprint != rows.fingerprint


def test_batches_of_one_corpus_are_refused_where_rows_continue(corpora, folder):
    config = small_data.config(corpora["mixture"], folder / "cache", "lm", mem_len=8)
    config.data.update(mixing="batches", stride=0)
    with pytest.raises(UserError, match=r"mixing is batches.*contiguous streams"):
        small_data.open_small(config)


def test_kinds_of_text_in_a_mixture_are_sampled_equally_often(corpora, folder):
    """XLM: parallel text by documents, text in one language as streams; each kind by
    its own sizes."""
    one, two = sorted(corpora["mixture"])
    mixture = {one: 1.0, two: 1.0, f"{two}/": 1.0}
    config = small_data.config(
        mixture, folder / "cache", "tlm", languages="0:1 2 3", sample_alpha=0.5
    )
    config.data.alpha = 0.5
    data = small_data.open_small(config)[0]
    source = data.train.source
    count = source.schedule.count
    np.testing.assert_allclose(count / count.sum(), [0.5, 0.25, 0.25], atol=1e-3)
    stride = [index.stride for index in source.indices]
    assert stride == [0, 32, 32]
    batch = concatenate(data.train.batches(0, None, 4))
    corpus, _ = source.schedule.locate(np.arange(32))
    for number, types in enumerate([{0, 1}, {2}, {3}]):
        own = corpus == number
        here = batch["segment"][own] > 0
        assert {*batch["token_type"][own][here]} == types
        restarts = (np.diff(batch["position"][own], axis=1) < 0).any(axis=1)
        assert restarts.any() == (number == 0)


def test_labels_are_those_of_all_corpora(make):
    data = make("mixture", "sequence_classification")
    assert data.vocab.num_corpora == 2
    assert data.vocab.labels == ("kind 0", "kind 1", "kind 2")
    assert set(data.train.batch(0)["label"]) == {0, 1, 2}


def test_the_fingerprint_changes_with_the_text_and_its_division(make):
    fingerprints = {
        make("one", "lm").fingerprint,
        make("mixture", "lm").fingerprint,
        make("one", "mlm").fingerprint,  # another number of raw tokens
        make("one", "lm", stride=7).fingerprint,
        make("one", "lm", vocabulary_size=401).fingerprint,
        make("one", "lm", separator="none").fingerprint,
        make("one", "lm", eval_split="test").fingerprint,
    }
    assert len(fingerprints) == 7


@pytest.mark.parametrize(
    "key, value",
    [
        ("mixture", {"embedded": 0}),
        ("lexicon", "no/such/file.tsv"),
    ],
)
def test_an_error_names_the_key_of_the_wrong_value(make, key, value):
    with pytest.raises(UserError, match=rf"data\.{key}"):
        make("one", "lm", **{key: value})


@pytest.mark.parametrize("name", ["dae", "fim"])
def test_too_few_sentinels_are_told_before_anything_is_compiled(make, name):
    with pytest.raises(UserError, match=r"data.sentinels is 0, but .* needs [23] "):
        make("one", name, sentinels=0)


def test_an_evaluation_reads_the_tags_of_all_texts(tmp_path):
    """Of cvt a fraction has tags in training alone."""
    words = "".join(f"word{number} A\nother B\n\n" for number in range(99))
    (tmp_path / "tags.conll").write_text(words)
    corpus, cache = str(tmp_path / "tags.conll"), tmp_path / "cache"
    config = small_data.config(corpus, cache, "cvt", labelled_fraction=0.3)
    config.data.vocabulary_size = 300
    data, _ = small_data.open_small(config)
    batch = concatenate(data.eval.evaluation())
    assert has_text(batch).sum() > 5
    np.testing.assert_array_equal(batch["weight"].any(axis=1), has_text(batch))
    in_training = concatenate(data.train.batches(0, None, 8))
    assert 0.1 < in_training["weight"].any(axis=1).mean() < 0.5
