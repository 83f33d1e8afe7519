"""A config's text opened: corpora, vocabulary, streams, indices, lexicon; cached."""

from typing import Any, NamedTuple

from research.batch import VocabInfo
from research.data import cache as caches
from research.data.corpora import lexicon
from research.data.corpora.corpus import join_corpora, sampling_rates
from research.data.corpora.load_corpus import load_corpus
from research.data.loading.examples import Part, Text
from research.data.loading.permutation import schedule
from research.data.store.example_index import build_index
from research.data.store.stream import build_stream
from research.data.tokenizers.vocabulary import Vocabulary, load_or_train


class Opened(NamedTuple):
    """Two splits of a corpus or a mixture, made of one vocabulary."""

    vocabulary: Vocabulary
    vocab: VocabInfo
    train: Text
    eval: Text


def open_text(config: Any, objective: Any) -> Opened:
    """Corpora, vocabulary, streams and indices as config.data says; cached.

    Raises:
      UserError: a value of config.data that is not right, or a split without text.
    """
    data = config.data
    rates = rates_of(config)
    assert rates, data.task
    schedule(rates.values())  # a wrong rate is told before the work is done
    cache = caches.resolve_cache_dir(data.cache_dir)
    loaded = [load_corpus(name, data.held_out) for name in rates]
    vocabulary = load_or_train(data, join_corpora(loaded), cache)
    reads = objective.text_spec(data.length)

    def parts(split: str) -> list[Part]:
        streams = [
            build_stream(corpus, split, vocabulary, cache, data.separator)
            for corpus in loaded
        ]
        return [
            Part(stream, build_index(stream, reads, data.stride, cache))
            for stream in streams
        ]

    train, held_out = parts(data.train_split), parts(data.eval_split)
    labels = {name for part in train + held_out for name in part.stream.label_names}
    vocab = vocabulary.vocab._replace(labels=tuple(sorted(labels)))
    if data.lexicon:
        vocab = vocab._replace(lexicon=lexicon.load_lexicon(data.lexicon, vocabulary))
    if data.alpha:
        tokens = [part.stream.num_tokens for part in train]
        rates = dict(zip(rates, sampling_rates(tokens, data.alpha), strict=True))

    def text(parts: list[Part]) -> Text:
        return Text(
            parts,
            objective,
            vocab,
            length=data.length,
            seed=config.seed,
            rates=rates,
            batch=config.train.batch,
            dupe_factor=data.dupe_factor,
        )

    opened = Opened(vocabulary, vocab, text(train), text(held_out))
    opened.train.check()
    return opened


def rates_of(config: Any) -> dict[str, float]:
    """The corpora that config.data names, and their rates; {}: a task that is not ours.

    Ours are `corpus:objective`, `mix:objective` and those with `:length`, for the
    config's own objective and length.
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
