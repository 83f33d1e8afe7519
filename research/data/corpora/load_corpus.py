"""The corpus that the config key `data.corpus` names."""

from research.data.corpora import files, stdlib_corpus, tfds_corpus
from research.data.corpora.corpus import Corpus
from research.errors import UserError


def load_corpus(name: str, held_out: float) -> Corpus:
    """The corpus that the config key `data.corpus` names.

    A document is held out by the hash of its text, so that copies of a document are in
    the same split and a corpus that grows moves no document to another split.

    Args:
      name: "embedded"; "docstrings"; a file, folder or glob of `.txt` (a blank line
        ends a document), `.jsonl` (an object a line, with `text`, and `label` where
        documents have one) and `.tsv` (parallel text: two columns a line, which are
        the two paragraphs of a document), each also as `.gz`; or "tfds:NAME", whose own
        test and validation splits are kept where it has them.
      held_out: the fraction of documents in valid, and again in test. Docstrings have
        fractions of their own: see `research.data.corpora.stdlib_corpus`.

    Raises:
      UserError: there is no such corpus, or `held_out` is not in [0, 0.5).
    """
    if not 0 <= held_out < 0.5:
        raise UserError(
            f"data.held_out is {held_out}; it is a fraction of documents in [0, 0.5)"
        )
    if name in stdlib_corpus.NAMES:
        return stdlib_corpus.load_stdlib_corpus(name, held_out)
    if name.startswith(tfds_corpus.PREFIX):
        return tfds_corpus.load_tfds_corpus(name, held_out)
    return files.load_file_corpus(name, held_out)
