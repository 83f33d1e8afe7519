"""Python's docstrings, each with its module as label."""

from research.data.read import text_sources
from research.data.read.corpus import Corpus, HeldOut
from research.data.read.formats import FileOptions


class Source(text_sources.Source):
    """The labelled part of `embedded`, whose text trains the vocabulary."""

    called = "docstrings"
    is_files = False
    is_built_in = True
    language = "English"

    def load(
        self, held_out: HeldOut, options: FileOptions, split: str, key: str
    ) -> Corpus:
        from research.data.read.stdlib_corpus import docstrings_corpus

        return docstrings_corpus(self.name, held_out)
