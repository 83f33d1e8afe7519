"""Corpora of TensorFlow Datasets."""

import contextlib
import socket
import sys
import urllib.request
from collections.abc import Collection, Iterator, Mapping

from research.contract.errors import UserError, missing_package
from research.data import cache
from research.data.documents import Document, join_parts
from research.data.read.corpus import (
    Corpus,
    HeldOut,
    held_out_fractions,
    split_of,
)
from research.data.read.formats import (
    AUTO,
    FileFormat,
    FileOptions,
    RowReader,
    SkippedRows,
    make_format,
    row_formats,
)
from research.data.read.formats.parsing.values import class_names, label_of, text_of

HOST = "storage.googleapis.com"
"""A host of the network that data sets are downloaded from."""
SPLIT = "/split="
"""Separates a data set's name from one of its splits or a part of that, as in
tfds:imdb_reviews/split=train[:90%], which is TFDS's notation for arguments."""
OWN_SPLITS = {
    "valid": ("validation", "validation_matched"),
    "test": ("test", "test_matched"),
}
"""Our split -> names of it in data sets; of MNLI's two of each the first is read."""


def load_tfds_corpus(
    name: str, held_out: HeldOut, options: FileOptions = AUTO, split: str = ""
) -> Corpus:
    """The data set "tfds:NAME", downloaded and prepared if necessary.

    See `corpus_of_builder`.

    Raises:
      UserError: TFDS cannot load it, or it has no such features or no such split.
    """
    try:
        import tensorflow_datasets as tfds
    except ModuleNotFoundError as error:
        key = f"data.{split or 'corpus'}={name}"
        raise missing_package(key, error.name) from error
    try:
        builder = tfds.builder(name.removeprefix("tfds:").partition(SPLIT)[0])
        if known := builder.info.splits:  # before anything is downloaded
            own = _own_splits(known).get(split, split)
            _split_to_read(name, known, own, f"data.{split or 'corpus'} is {name!r}")
        with _no_retries_offline():
            builder.download_and_prepare()
    except UserError:
        raise
    except Exception as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else ""
        raise UserError(
            f"data.{split or 'corpus'} is {name!r}: TensorFlow Datasets cannot load it "
            f"({type(error).__name__}: {reason[:200]})"
        ) from error
    return corpus_of_builder(name, builder, held_out, options, split)


@contextlib.contextmanager
def _no_retries_offline() -> Iterator[None]:
    """Without a network, downloads fail at once, not after ten retries in 200 s."""
    downloader = None
    try:
        if not urllib.request.getproxies():
            socket.getaddrinfo(HOST, 443)
    except OSError:
        with contextlib.suppress(ImportError):  # of another version of TFDS
            from tensorflow_datasets.core.download import downloader
    if downloader is None:
        yield
        return
    retries, downloader.MAX_RETRIES = downloader.MAX_RETRIES, 0
    try:
        yield
    finally:
        downloader.MAX_RETRIES = retries


def corpus_of_builder(
    name: str,
    builder,
    held_out: HeldOut,
    options: FileOptions = AUTO,
    split: str = "",
) -> Corpus:
    """The corpus of a prepared TFDS builder; `label` may be its ClassLabel feature.

    The features `options.fields` are the parts of an example, and `options.label` is
    its label: "tfds:glue/mrpc" with fields sentence1 and sentence2. A format may read
    rows in its own way (`FileFormat.row_reader`). `Corpus.classes` are the names of the
    ClassLabel in its order.

    The data set's own validation and test splits are kept; one that it lacks gets the
    fraction `held_out` of its train split, by the hash of the text. A split that is
    part of the name is read instead of all three, divided by that hash.

    Args:
      split: the split whose key names the data set; "": data.corpus does. It is read
        unless the name has a split.

    Raises:
      UserError: it has no such feature or no such split.
    """
    info, where = builder.info, f"data.{split or 'corpus'} is {name!r}"
    form = FileFormat() if options.format == AUTO.format else make_format(options)
    own_reader = form.row_reader(info.features, options)
    needed, make = own_reader or _text_reader(where, info.features, options)
    if set(needed) - set(info.features):
        raise UserError(
            f"{where}: it needs a feature {', '.join(sorted(needed))}, but has "
            f"{', '.join(info.features)}",
            "; data.fields names others, and data.format may be "
            f"{', '.join(row_formats())}, which read other features",
        )
    own, chosen = _own_splits(info.splits), bool(split) or SPLIT in name
    whole = _split_to_read(name, info.splits, own.get(split, split), where)
    own = {} if chosen else own
    fraction = held_out_fractions(held_out) | dict.fromkeys(own, 0.0)

    def is_in(split: str, text: str) -> bool:
        return held_out is None or split in own or split_of(text, **fraction) == split

    def read(split: str) -> Iterator[Document]:
        rows = builder.as_dataset(split=own.get(split, whole))
        skipped: dict[str, list[int]] = {}
        for number, row in enumerate(rows.as_numpy_iterator()):
            document, problem = make(row)
            if problem:
                skipped.setdefault(problem, []).append(number)
            if document and is_in(split, document.text):
                yield document._replace(id=document.id or f"{name}:{number}")
        for problem, numbers in skipped.items():
            rows = SkippedRows(len(numbers), numbers[0], problem)
            print(f"{name}: {rows}", file=sys.stderr)

    sizes = {split: info.splits[split].num_examples for split in info.splits}
    named = options.key() if options != AUTO else []
    named += [each for each in own.values() if each.endswith("_matched")]
    named += [SPLIT + whole] if chosen else []
    if own_reader and form.version > 1:
        named.append(f"answers {form.version}")
    key = ["tfds", info.full_name, sizes, held_out, *named]
    arrays = form.arrays if own_reader else {}
    classes = class_names(info.features, options.label or "label")
    fingerprint = lambda: cache.fingerprint(key)  # noqa: E731
    return Corpus(name, read, fingerprint, arrays=arrays, classes=classes)


def _own_splits(splits: Collection[str]) -> dict[str, str]:
    """The data set's names for our splits valid and test, if it has them."""
    return {
        ours: next(filter(splits.__contains__, names))
        for ours, names in OWN_SPLITS.items()
        if any(each in splits for each in names)
    }


def _split_to_read(name: str, splits: Mapping, own: str, where: str) -> str:
    """The split in a data set's name, else `own`, else "train".

    Raises:
      UserError: the data set has no such split.
    """
    _, given, split = name.partition(SPLIT)
    split = split if given else own or "train"
    try:
        splits[split]
    except (KeyError, ValueError, NotImplementedError) as error:
        raise UserError(
            f"{where}: it has no split {split!r}; it has {', '.join(splits)}, and a "
            f"part of one is named as in tfds:NAME{SPLIT}train[:90%]"
        ) from error
    return split


def _text_reader(where: str, features: Mapping, options: FileOptions) -> RowReader:
    """Reads features that are text, and a label.

    Args:
      where: the config key and the name, for errors.
    """
    fields, label = options.fields or ("text",), options.label or "label"
    classes = class_names(features, label)

    def make(row: Mapping) -> tuple[Document | None, str]:
        if wrong := [f for f in fields if not isinstance(row[f], bytes)]:
            raise UserError(f"{where}: feature {wrong[0]} is not text")
        parts = [text_of(row[field], "replace") for field in fields]
        if options.fields and not all(part.strip() for part in parts):
            return None, "left out, since a field of data.fields is blank"
        document = join_parts(parts, "\n")
        if classes and row[label] >= 0:
            return document._replace(label=classes[row[label]]), ""
        if options.label and not classes:  # a number
            try:
                return document._replace(label=label_of(row[label])), ""
            except ValueError as error:
                raise UserError(f"{where}: data.label={label}: {error}") from error
        return document, ""

    return RowReader((*fields, *filter(None, [options.label])), make)
