"""A document in each file: a blank line ends a paragraph, not the document."""

from dataclasses import dataclass

from research.data.read.formats import txt


@dataclass(frozen=True)
class Format(txt.Format):
    """Reads like `txt`, but keeps blank lines; files over 1 MiB are cut into parts.

    data.fields and data.label are those of `txt`.
    """

    suffixes = ()
    is_text = False
    division = ""
    blank_ends = False
