"""Builds what config.data names from text: corpora, vocabulary, streams, indices."""

from typing import Any, NamedTuple

from research.batch import VocabInfo
from research.data import cache as caches
from research.data.corpora import lexicon
from research.data.corpora.corpus import join_corpora, sampling_rates
from research.data.corpora.load_corpus import load_corpus
from research.data.loading.examples import IndexedCorpus
from research.data.loading.mixture_schedule import make_schedule
from research.data.loading.text_source import TextSource
from research.data.store.example_index import build_index
from research.data.store.stream import build_stream
from research.data.tokenizers.vocabulary import Vocabulary, load_or_train


class OpenedText(NamedTuple):
    """The train and eval splits of a corpus or a mixture, with one vocabulary."""

    vocabulary: Vocabulary
    vocab: VocabInfo
    train: TextSource
    eval: TextSource


def open_text(config: Any, objective: Any) -> OpenedText:
    """Builds corpora, vocabulary, streams and indices, or reads them from the cache.

    Raises:
      UserError: a value of config.data is wrong, or a split has no text.
    """
    data = config.data
    rates = corpus_rates(config)
    assert rates, data.task
    make_schedule(rates.values())  # reports a wrong rate before the long work
    cache = caches.resolve_cache_dir(data.cache_dir)
    loaded = [load_corpus(name, data.held_out) for name in rates]
    vocabulary = load_or_train(data, join_corpora(loaded), cache)
    text_spec = objective.text_spec(data.length)

    def index_corpora(split: str) -> list[IndexedCorpus]:
        streams = [
            build_stream(corpus, split, vocabulary, cache, data.separator)
            for corpus in loaded
        ]
        return [
            IndexedCorpus(stream, build_index(stream, text_spec, data.stride, cache))
            for stream in streams
        ]

    train, held_out = index_corpora(data.train_split), index_corpora(data.eval_split)
    labels = {name for each in train + held_out for name in each.stream.label_names}
    count = sum(corpus.stream.count_tokens(vocabulary.vocab.size) for corpus in train)
    vocab = vocabulary.vocab._replace(labels=tuple(sorted(labels)), token_count=count)
    if data.lexicon:
        vocab = vocab._replace(lexicon=lexicon.load_lexicon(data.lexicon, vocabulary))
    if data.alpha:
        num_tokens = [corpus.stream.num_tokens for corpus in train]
        rates = dict(zip(rates, sampling_rates(num_tokens, data.alpha), strict=True))

    def text_source(corpora: list[IndexedCorpus]) -> TextSource:
        return TextSource(
            corpora,
            objective,
            vocab,
            length=data.length,
            seed=config.seed,
            rates=rates,
            batch_size=config.train.batch,
            dupe_factor=data.dupe_factor,
        )

    opened = OpenedText(vocabulary, vocab, text_source(train), text_source(held_out))
    opened.train.check_batch_size()
    return opened


def corpus_rates(config: Any) -> dict[str, float]:
    """Rates of the corpora that config.data names; {} if data.task is a user's task.

    Our own tasks are `corpus:objective` and `mix:objective`, either followed by
    `:length`, with the objective and length of the config.
    """
    data = config.data
    corpus = data.corpus
    if data.task:
        ending = f":{config.objective.name}"
        corpus = data.task.removesuffix(f":{data.length}").removesuffix(ending)
        if data.task not in (corpus + ending, f"{corpus}{ending}:{data.length}"):
            return {}
    if data.mixture and (corpus == "mix" or not data.task):
        return dict(sorted(data.mixture.items()))
    return {corpus: 1.0}
