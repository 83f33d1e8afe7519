"""Data sets of TensorFlow Datasets: `data.corpus=tfds:NAME`."""

from research.data.read import text_sources
from research.data.read.corpus import Corpus, HeldOut
from research.data.read.formats import FileOptions


class Source(text_sources.Source):
    """A data set, or tfds:NAME/split=SPLIT, a part of one."""

    called = "tfds:NAME"
    is_files = False

    def load(
        self, held_out: HeldOut, options: FileOptions, split: str, key: str
    ) -> Corpus:
        from research.data.read.tfds_corpus import load_tfds_corpus

        return load_tfds_corpus(self.name, held_out, options, split)
