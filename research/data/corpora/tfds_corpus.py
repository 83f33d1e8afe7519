"""Corpora of TensorFlow Datasets."""

from collections.abc import Iterator

from research.data.corpora.corpus import Corpus, Document, split_of
from research.errors import UserError

PREFIX = "tfds:"


def load_tfds_corpus(name: str, held_out: float) -> Corpus:
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
    return corpus_of_builder(name, builder, held_out)


def corpus_of_builder(name: str, builder, held_out: float) -> Corpus:
    """The corpus of a prepared TFDS builder; `label` may be its ClassLabel feature.

    The data set's own validation and test splits are kept; one that it lacks gets the
    fraction `held_out` of its train split, by the hash of the text.

    Raises:
      UserError: it has no `text` feature or no train split.
    """
    info = builder.info
    if "text" not in info.features or "train" not in info.splits:
        raise UserError(
            f"data.corpus is {name!r}: it needs a train split and a feature text, but "
            f"has {', '.join(info.splits)} and {', '.join(info.features)}"
        )
    tfds_split = {"valid": "validation", "test": "test"}
    own = {ours: its for ours, its in tfds_split.items() if its in info.splits}
    fraction = {split: 0.0 if split in own else held_out for split in tfds_split}
    label_names = getattr(dict(info.features.items()).get("label"), "names", ())

    def read(split: str) -> Iterator[Document]:
        rows = builder.as_dataset(split=own.get(split, "train"))
        for row in rows.as_numpy_iterator():
            text = row["text"].decode("utf-8", "replace")
            labelled = label_names and row["label"] >= 0
            label = label_names[row["label"]] if labelled else None
            if split in own or split_of(text, **fraction) == split:
                yield Document(text, label)

    sizes = {split: info.splits[split].num_examples for split in info.splits}
    return Corpus(name, read, lambda: ["tfds", info.full_name, sizes, held_out])
