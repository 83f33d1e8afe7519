"""Corpora of TensorFlow Datasets."""

from collections.abc import Iterator

from research.data import cache
from research.data.corpora.corpus import Corpus, Document, join_parts, split_of
from research.data.corpora.row_formats import AUTO, Format
from research.errors import UserError

PREFIX = "tfds:"


def load_tfds_corpus(name: str, held_out: float, fmt: Format = AUTO) -> Corpus:
    """The data set "tfds:NAME", which is downloaded and prepared if it is not yet.

    Raises:
      UserError: TFDS cannot load it, or it has no `text` feature or no train split.
    """
    try:
        import tensorflow_datasets as tfds

        builder = tfds.builder(name.removeprefix(PREFIX))
        builder.download_and_prepare()
    except Exception as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else ""
        raise UserError(
            f"data.corpus is {name!r}: TensorFlow Datasets cannot load it "
            f"({type(error).__name__}: {reason[:200]})"
        ) from error
    return corpus_of_builder(name, builder, held_out, fmt)


def corpus_of_builder(
    name: str, builder, held_out: float, fmt: Format = AUTO
) -> Corpus:
    """The corpus of a prepared TFDS builder; `label` may be its ClassLabel feature.

    With `fmt.fields` those features are the parts of an example, and `fmt.label` is its
    label: "tfds:glue/mrpc" with fields sentence1 and sentence2.

    The data set's own validation and test splits are kept; one that it lacks gets the
    fraction `held_out` of its train split, by the hash of the text.

    Raises:
      UserError: it has no such feature or no train split.
    """
    info, fields = builder.info, fmt.fields or ("text",)
    label_name = fmt.label or "label"
    needed = {*fields, *filter(None, [fmt.label])}
    if needed - set(info.features) or "train" not in info.splits:
        raise UserError(
            f"data.corpus is {name!r}: it needs a train split and a feature "
            f"{', '.join(sorted(needed))}, but has {', '.join(info.splits)} and "
            f"{', '.join(info.features)}"
        )
    tfds_split = {"valid": "validation", "test": "test"}
    own = {ours: its for ours, its in tfds_split.items() if its in info.splits}
    fraction = {split: 0.0 if split in own else held_out for split in tfds_split}
    label_names = getattr(dict(info.features.items()).get(label_name), "names", ())

    def read(split: str) -> Iterator[Document]:
        rows = builder.as_dataset(split=own.get(split, "train"))
        for number, row in enumerate(rows.as_numpy_iterator()):
            if wrong := [f for f in fields if not isinstance(row[f], bytes)]:
                raise UserError(f"data.corpus {name!r}: feature {wrong[0]} is no text")
            parts = [row[field].decode("utf-8", "replace") for field in fields]
            if fmt.fields and not all(part.strip() for part in parts):
                print(f"{name}: row {number} is left out: a field is blank")
                continue
            document = join_parts(parts, "\n")
            label = None
            if label_names and row[label_name] >= 0:
                label = label_names[row[label_name]]
            elif fmt.label and not label_names:  # a number
                label = str(row[label_name])
            if split in own or split_of(document.text, **fraction) == split:
                yield document._replace(label=label, id=f"{name}:{number}")

    sizes = {split: info.splits[split].num_examples for split in info.splits}
    named = list(fmt) if fmt != AUTO else []
    key = ["tfds", info.full_name, sizes, held_out, *named]
    return Corpus(name, read, lambda: cache.fingerprint(key))
