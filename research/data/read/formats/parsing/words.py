"""Sentences as words with tags."""

from collections.abc import Iterator

from research.data.documents import Document, join_parts
from research.data.read.formats import LineError


def sentence(words: list[tuple[int, str, str]]) -> Iterator[Document]:
    """The document of (line, word, tag) tuples, if there are any."""
    if not words:
        return
    numbers, forms, tags = zip(*words, strict=True)
    for number, word, tag in words:
        if not word.strip(" ") or not tag.strip():
            raise LineError(number, "a word or its tag is blank")
    document = join_parts(forms, " ")
    yield document._replace(arrays={"tags": tags}, id=f":{numbers[0]}")
