"""Python's docstrings and language reference, a document a module."""

from research.data.read import text_sources
from research.data.read.corpus import Corpus, HeldOut
from research.data.read.formats import FileOptions


class Source(text_sources.Source):
    """The documentation of Python's own standard library, see `stdlib_corpus`."""

    called = "embedded"
    is_files = False
    is_built_in = True
    language = "English"

    def load(
        self, held_out: HeldOut, options: FileOptions, split: str, key: str
    ) -> Corpus:
        from research.data.read.stdlib_corpus import modules_corpus

        return modules_corpus(self.name, held_out)
