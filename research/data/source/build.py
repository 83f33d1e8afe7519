"""Builds what config.data names from text: corpora, vocabulary, streams, indices."""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from research.contract.batch import VocabInfo
from research.contract.errors import UserError
from research.data import cache as caches
from research.data.documents import ArrayType, Document
from research.data.options import DataOptions
from research.data.order.mixture_schedule import MIXINGS, make_schedule
from research.data.read import lexicon
from research.data.read.corpus import (
    SPLITS,
    Corpus,
    HeldOut,
    join_corpora,
    sampling_rates,
    split_fractions,
)
from research.data.read.formats import AUTO, FileOptions, is_utf8, own_keys
from research.data.read.text_sources import source_of
from research.data.rows import TextSpec
from research.data.source.labels import (
    class_order,
    is_labelled,
    known_labels,
    no_labels,
)
from research.data.source.text_source import TextSource
from research.data.store.copies import Copies
from research.data.store.example_index import Index, build_index
from research.data.store.stream import Stream, build_stream
from research.data.store.token_counts import token_counts
from research.data.tokenize.vocabulary import Vocabulary, load_or_train

if TYPE_CHECKING:
    from research.objectives import Objective


MANY_DOCUMENTS, SHORT_BYTES = 100, 1000
"""Documents of a file, and bytes of each, from which on a line says what ends one."""


class OpenedText(NamedTuple):
    """The train and eval splits of a corpus or a mixture, with one vocabulary."""

    vocabulary: Vocabulary
    vocab: VocabInfo
    train: TextSource
    eval: TextSource
    documents: Callable[[], Iterator[Document]]  # those of the eval split, in order
    classes: tuple[str, ...]  # `labels.class_order` of `vocab.labels`
    evaluation_note: str  # says that evaluations are not of held-out text; "": they are


def open_text(
    data: DataOptions, objective: "Objective", *, seed: int, batch_size: int
) -> OpenedText:
    """Builds corpora, vocabulary, streams and indices, or reads them from the cache.

    Raises:
      UserError: a value of config.data is wrong, or a split has no text.
    """
    rates = corpus_rates(data, objective)
    assert rates, data.task
    if data.mixture:
        make_schedule(rates.values())  # reports a wrong rate before the long work
    named = files_of(data, data.eval_split)
    text_spec = objective.text_spec(data.length)
    _check_options(data, objective, text_spec, len(rates))
    cache = caches.resolve_cache_dir(data.cache_dir)
    loaded = split_corpora(data, objective, data.train_split)
    evaluated = split_corpora(data, objective, data.eval_split)
    if (tested := with_test_split(data, objective)) is not None:
        split_corpora(tested, objective, tested.eval_split)  # raises if it is missing
    _check_documents(text_spec, loaded, data)
    for split, corpora in ((data.train_split, loaded), (data.eval_split, evaluated)):
        _check_arrays(text_spec, objective.array_types, corpora, split)
        _check_files(objective, corpora)
    corpus = loaded[0] if len(loaded) == 1 else join_corpora(loaded)
    # errors in these files are reported before a vocabulary is trained
    encode_lexicon = (
        lexicon.read_lexicon(data.lexicon, data.lexicon_texts) if data.lexicon else None
    )
    vocabulary = load_or_train(data, corpus, cache)
    eval_length = objective.evaluation_length(data.length)
    index_corpora = partial(_index_corpora, data, vocabulary, cache)
    train = index_corpora(text_spec, loaded, data.train_split)
    eval_spec = objective.text_spec(eval_length)
    held_out = index_corpora(eval_spec, evaluated, data.eval_split)
    labels, no_gold, classes = (), frozenset(), ()
    if label_type := text_spec.label_type:
        own = data.eval_split if named else ""
        labels, no_gold = known_labels(
            label_type, train, held_out, evaluated, own, data.label
        )
        classes = class_order(labels, loaded)
    for number, own in enumerate(loaded):
        streams = {data.train_split: train[number].stream}
        if not named:
            streams[data.eval_split] = held_out[number].stream
        _print_notes(own, streams, train[number].stream.num_documents)
    count = sum(token_counts(corpus.stream, cache) for corpus in train)
    vocab = vocabulary.vocab._replace(
        labels=labels, token_count=count, num_corpora=len(train)
    )
    if encode_lexicon:
        vocab = vocab._replace(lexicon=encode_lexicon(vocabulary))
    if data.alpha:
        rates = _alpha_rates(train, data.alpha, text_spec, rates)
    text_source = partial(
        TextSource,
        objective=objective,
        vocab=vocab,
        seed=seed,
        batch_size=batch_size,
        dupe_factor=data.dupe_factor,
    )
    copies = _train_copies(data, text_spec, train, cache)
    order = {"length": data.length, "copies": copies, "mixing": data.mixing}
    train_source = text_source(train, rates=rates, **order)
    train_source.check_batch_size()
    eval_rates = {named: 1.0} if named else rates
    eval_source = text_source(
        held_out,
        objective=_corrupts_evaluations(objective, eval_length),
        length=eval_length,
        rates=eval_rates,
    )

    def documents() -> Iterator[Document]:
        for corpus in evaluated:
            for document in corpus.documents(data.eval_split):
                has_gold = document.label not in no_gold
                yield document if has_gold else document._replace(label=None)

    sources = train_source, eval_source
    note = _evaluation_note(data, loaded, evaluated)
    return OpenedText(vocabulary, vocab, *sources, documents, classes, note)


def _check_options(
    data: DataOptions, objective: "Objective", text_spec: TextSpec, num_corpora: int
) -> None:
    """Raises UserError if options of the data contradict what the objective reads."""
    objective.check_corpora(num_corpora)
    named = files_of(data, data.eval_split)
    if named and num_corpora > 1 and objective.reads_corpus:
        raise UserError(
            f"objective {objective.name} takes the language of a text from its corpus "
            f"in data.mixture, but data.{data.eval_split} names none of these; leave "
            "it out: data.held_out divides each corpus"
        )
    if text_spec.contiguous and MIXINGS[data.mixing].depends_on_batch:
        raise UserError(
            f"data.mixing is {data.mixing}, but objective {objective.name} reads "
            "contiguous streams, each row one corpus; set data.mixing=rows"
        )
    labels_are = text_spec.label_type
    if labels_are and labels_are.is_place and data.separator == "lines":
        raise UserError(
            "data.separator is lines, but answers are predicted in text without tokens "
            "between its lines; set data.separator=eos"
        )


def _print_notes(
    corpus: Corpus, streams: Mapping[str, Stream], num_documents: int
) -> None:
    """Prints what looks wrong about a corpus, once for all processes."""
    if note := largest_note(corpus, streams) or division_note(corpus, num_documents):
        from research.distributed import processes  # imports JAX

        processes.print_from_process_0(note)


def _evaluation_note(
    data: DataOptions, loaded: Sequence[Corpus], evaluated: Sequence[Corpus]
) -> str:
    """Says that evaluations are not of held-out text; "": they are."""
    is_own = bool(getattr(data, data.eval_split))  # not a part of data.train's files
    if is_own and (shared := _files(loaded) & _files(evaluated)):
        return (
            f"data.{data.eval_split} reads {min(shared)}, as the training text does: "
            "its evaluations are not of held-out text"
        )
    return ""


def open_split(
    data: DataOptions,
    objective: "Objective",
    vocabulary: Vocabulary,
    vocab: VocabInfo,
    *,
    batch_size: int,
) -> TextSource:
    """The evaluation split alone, in tokens of a given vocabulary.

    Raises:
      UserError: a value of config.data is wrong, or the split has no text.
    """
    corpora = split_corpora(data, objective, data.eval_split)
    _check_files(objective, corpora)
    cache = caches.resolve_cache_dir(data.cache_dir)
    spec = objective.text_spec(data.length)
    return TextSource(
        _index_corpora(data, vocabulary, cache, spec, corpora, data.eval_split),
        objective,
        vocab,
        length=data.length,
        seed=0,
        rates={corpus.name: 1.0 for corpus in corpora},
        batch_size=batch_size,
    )


def division_note(corpus: Corpus, num_documents: int) -> str:
    """A line about files that became many short documents; "": they did not."""
    is_many = num_documents > MANY_DOCUMENTS * len(corpus.files)
    if not corpus.division or not is_many or corpus.size > SHORT_BYTES * num_documents:
        return ""
    return (
        f"text: {corpus.name} has {num_documents:,} short documents "
        f"(files: {len(corpus.files):,}): {corpus.division}"
    )


def largest_note(corpus: Corpus, streams: Mapping[str, Stream]) -> str:
    """A line about a document with at least half of the text; "": there is none.

    Args:
      streams: split -> that part of the corpus.
    """
    if any(len(stream.meta["shards"]) > 1 for stream in streams.values()):
        return ""  # with so many tokens no document is half
    sizes = {split: np.diff(each.document_offsets) for split, each in streams.items()}
    count = sum(map(len, sizes.values()))
    total = sum(int(own.sum()) for own in sizes.values())
    most, split = max((int(own.max(initial=0)), name) for name, own in sizes.items())
    if 2 * most < total:
        return ""
    if count == 1:
        return f"text: {corpus.name} is one document, of {total:,} tokens"
    return (
        f"text: of the {count:,} documents of {corpus.name} one has {most:,} of the "
        f"{total:,} tokens ({100 * most / total:.0f} %), all in the {split} split"
        f"{corpus.division and ': '}{corpus.division}"
    )


def _check_documents(
    text_spec: TextSpec, train: Sequence[Corpus], data: DataOptions
) -> None:
    """Checks that the training text has a document with the label and parts to read.

    In most corpora the first document has them. If nothing can be missing, no document
    is read: parsing the embedded text takes seconds.

    Raises:
      UserError: it has none.
    """
    kind = text_spec.label_type
    if not kind and type(text_spec).lacks is TextSpec.lacks:
        return
    problem = ""
    documents = (corpus.documents(data.train_split) for corpus in train)
    for document in filter(None, chain.from_iterable(zip_longest(*documents))):
        problem = text_spec.lacks(document)
        if kind and not is_labelled(kind, document):
            problem = no_labels(kind, data.label, arrays=document.arrays)
        if not problem:
            return
    if problem:
        raise UserError(f"the training text has no {problem}")


def _corrupts_evaluations(objective: "Objective", length: int) -> "Objective":
    """The objective of evaluations, if its batches have the arrays of training.

    Their shapes are those of the run. Otherwise, as for theseus, that of training.
    """
    own, specs = objective.for_evaluation(), objective.batch_spec(length)
    return own if own.batch_spec(length) == specs else objective


def _files(corpora: Iterable[Corpus]) -> set[Path]:
    """The files of corpora, with links resolved."""
    return {file.resolve() for corpus in corpora for file in corpus.files}


def _index_corpora(
    data: DataOptions,
    vocabulary: Vocabulary,
    cache: Path,
    text_spec: TextSpec,
    corpora: list[Corpus],
    split: str,
) -> list[Index]:
    """The index of each corpus."""
    streams = [
        build_stream(corpus, split, vocabulary, cache, data.separator)
        for corpus in corpora
    ]
    return [
        build_index(stream, text_spec.of_corpus(number), data.stride, cache)
        for number, stream in enumerate(streams)
    ]


def _train_copies(
    data: DataOptions, text_spec: TextSpec, train: list[Index], cache: Path
) -> list[Copies]:
    """The copies of each corpus; none if texts are packed only once."""
    specs = [text_spec.of_corpus(number) for number in range(len(train))]
    if data.pairs == "once" or not any(spec.has_copies for spec in specs):
        return []

    def build(index: Index, spec: TextSpec, copy: int) -> Index:
        return build_index(index.stream, spec.replace(copy=copy), data.stride, cache)

    return [
        Copies(partial(build, index, spec), data.dupe_factor if spec.has_copies else 1)
        for index, spec in zip(train, specs, strict=True)
    ]


def _check_arrays(
    text_spec: TextSpec,
    expected: Mapping[str, ArrayType],
    corpora: Sequence[Corpus],
    split: str,
) -> None:
    """Checks that texts have the arrays that are read.

    Args:
      expected: `Objective.array_types`.

    Raises:
      UserError: no text has one, two have it with different types, its type is not the
        expected one, or texts are packed and a document has an array.
    """
    given = [corpus.arrays for corpus in corpora]
    for name in text_spec.arrays:
        types = {arrays[name] for arrays in given if name in arrays}
        if len(types) == 1:
            (found,) = types
            if found.stored != expected.get(name, found).stored:
                raise UserError(
                    f"the objective reads an array {name!r} of type "
                    f"{expected[name].stored}, but in the {split} split it is of type "
                    f"{found.stored}; data.format determines the type"
                )
            if text_spec.has_pieces and found.stored.shape:
                raise UserError(
                    f"the array {name!r} is of a whole document, so that a row can "
                    "have only one; set data.packing=none"
                )
            continue
        known = ", ".join(sorted({each for arrays in given for each in arrays}))
        wrong = "of several types" if types else f"missing; it has {known or 'none'}"
        raise UserError(
            f"the objective reads an array {name!r}, which in the {split} split is "
            f"{wrong}; data.format determines the arrays"
        )


def _check_files(objective: "Objective", corpora: Iterable[Corpus]) -> None:
    objective.check_files([file for corpus in corpora for file in corpus.files])


def _alpha_rates(
    indices: list[Index], alpha: float, text_spec: TextSpec, names: Iterable[str]
) -> dict[str, float]:
    """Name -> rate of each corpus, see `sampling_rates`."""
    num_tokens = [index.stream.num_tokens for index in indices]
    groups = [number in text_spec.streams for number in range(len(indices))]
    rates = sampling_rates(num_tokens, alpha, groups)
    return dict(zip(names, rates, strict=True))


def corpus_rates(data: DataOptions, objective: "Objective") -> dict[str, float]:
    """Rates of the corpora that config.data names; {} if data.task is a user's task.

    Our own tasks are `corpus:objective` and `mix:objective`, either followed by
    `:length`, with the objective and length of the config.
    """
    corpus = files_of(data, data.train_split) or data.corpus
    if data.task:
        ending = f":{objective.name}"
        corpus = data.task.removesuffix(f":{data.length}").removesuffix(ending)
        if data.task not in (corpus + ending, f"{corpus}{ending}:{data.length}"):
            return {}
    if data.mixture and (corpus == "mix" or not data.task):
        return dict(sorted(data.mixture.items()))
    return {corpus: 1.0}


def files_of(data: DataOptions, split: str) -> str:
    """What config.data names for a split; "" if that is a part of data.corpus.

    With data.split, the files of data.train contain all splits except those with files
    of their own.
    """
    return getattr(data, split) or (data.train if data.split else "")


def has_split(data: DataOptions, split: str) -> bool:
    """Whether config.data names files of a split, or a part of data.train."""
    fractions = split_fractions(data.split) if data.split else (0.0,) * len(SPLITS)
    return bool(getattr(data, split)) or fractions[SPLITS.index(split)] > 0


def with_test_split(data: DataOptions, objective: "Objective") -> DataOptions | None:
    """The test split instead of the evaluation split.

    None if there is no further test split, or the objective predicts nothing.
    """
    has_test = has_split(data, "test") and data.eval_split != "test"
    if not has_test or not objective.predicts:
        return None
    return dataclasses.replace(data, eval_split="test")


def split_corpora(
    data: DataOptions, objective: "Objective", split: str
) -> list[Corpus]:
    """The corpora of a split: what config.data names for it, or `corpus_rates` has.

    Raises:
      UserError: see `load_corpus`; or other keys contradict the named files.
    """
    fields = tuple(filter(None, data.fields.split(",")))
    for name in fields:
        if (*fields, data.label).count(name) > 1:
            raise UserError(
                f"data.fields={data.fields} and data.label={data.label} name "
                f"{name!r} twice"
            )
    own = own_keys(data.file_format)
    options = FileOptions(
        data.format, fields, data.label, own=own, encoding=data.encoding
    )
    named, trained = files_of(data, split), files_of(data, data.train_split)
    names = [named] if named else [*corpus_rates(data, objective)]
    for name in names if not is_utf8(data.encoding) else ():
        source = source_of(name, built_in=not named)
        if source and not source.is_files:
            raise UserError(
                f"data.encoding={data.encoding} is for files, not for {name}"
            )
    if trained and not named:
        raise UserError(
            f"data.{data.train_split} names files that are all for training; name "
            f"those of data.{split} too, or give data.split=0.9,0.1,0, which divides "
            "them"
        )
    if not named:
        key = "data.mixture" if data.mixture else "data.corpus"
        return [load_corpus(name, data.held_out, options, key) for name in names]
    for key in ("mixture", "task") if trained else ():
        if getattr(data, key):
            raise UserError(f"data.{key} and data.{data.train_split} name two texts")
    if data.reader == "seqio":
        raise UserError(
            f"data.reader=seqio reads data.corpus or data.mixture; with "
            f"data.{split} set data.reader=native"
        )
    if data.split and (split == "train" or not getattr(data, split)):
        _, *fractions = split_fractions(data.split)
        return [_load_named_corpus(named, tuple(fractions), options, "train")]
    options = options._replace(optional=split == "test")
    return [_load_named_corpus(named, None, options, split)]


def load_corpus(
    name: str, held_out: float, options: FileOptions = AUTO, key: str = "data.corpus"
) -> Corpus:
    """The corpus that the config key `data.corpus` or `data.mixture` names.

    A document is held out by the hash of its text, so that copies of a document are in
    the same split and a corpus that grows moves no document to another split.

    Args:
      name: a file, folder or glob of files in the formats of
        `research.data.read.formats`, each also as `.gz` and `.zst`; the files of a
        parallel text's sides, see `data.read.parallel_text`; or a text of one of
        `data.read.text_sources`.
      held_out: the fraction of documents in valid, and again in test. Docstrings have
        fractions of their own: see `research.data.read.stdlib_corpus`.
      options: how files are read.
      key: the config key of the name, for errors.

    Raises:
      UserError: there is no such corpus, or `held_out` is not in [0, 0.5).
    """
    if not 0 <= held_out < 0.5:
        raise UserError(
            f"data.held_out is {held_out}; it must be a fraction of documents in [0, "
            "0.5)"
        )
    return _load_named_corpus(name, held_out, options, key=key)


def _load_named_corpus(
    name: str,
    held_out: HeldOut,
    options: FileOptions,
    split: str = "",
    key: str = "data.corpus",
) -> Corpus:
    """The corpus that data.corpus or the key of a split names."""
    key = f"data.{split}" if split else key
    source = source_of(name, built_in=not split)
    if source and not source.is_files:
        return source.load(held_out, options, split, key)
    from research.data.read.files import load_file_corpus  # and all formats

    return load_file_corpus(name, held_out, options, key)
