"""How objectives that are trained together read one text: each takes its part of it."""

# B batch, R raw tokens an example

from collections.abc import Mapping
from typing import Any

import numpy as np

from research.batch import NEXT, SENTENCE, Example, TextSpec
from research.errors import UserError

SERVES = {
    "pair": ("passage", "sentences", "stream", "sentence_pair"),
    "passage": ("sentences", "stream"),
    "sentences": ("stream",),
}
"""Units of text, and those that can be taken out of one."""

PAIRS = ("pair", "sentence_pair")


def common(parts: Mapping[str, Any], length: int) -> TextSpec:
    """What is read for all parts, each of which `share` then gives its own.

    Parts of one unit read the longest of what each asks for. Of several units one has
    to serve the others: a pair, those of whole sentences and of streams, which take
    both of its spans where they follow each other and else the first; a pair of
    segments, also one of sentences, which is the two where its segments meet.

    Args:
      parts: name -> objective.

    Raises:
      UserError: no unit serves all, or the pairs are not of one kind and length.
    """
    each = {name: part.text_spec(length) for name, part in parts.items()}
    found = [base for base in each.values() if all(map(_serves(base), each.values()))]
    if not found:
        told = "; ".join(f"{name}: {_told(read)}" for name, read in each.items())
        raise UserError(
            "objectives that are trained together read one text, but none of what "
            f"these read serves all ({told})"
        )
    return max(found, key=lambda base: base.length)


def _serves(base: TextSpec):
    """A function of what a part reads: whether it can be had from `base`."""

    def serves(read: TextSpec) -> bool:
        if read.unit in PAIRS:
            plain = read._replace(
                other_document_rate=base.other_document_rate,
                nonadjacent_rate=base.nonadjacent_rate,
                short_rate=base.short_rate,
            )
            asks = (read.other_document_rate, read.nonadjacent_rate)
            alike = plain._replace(unit=base.unit) == base
            if read.unit == base.unit:
                return read == base
            nothing = asks in (
                (0, 0),
                (base.other_document_rate, base.nonadjacent_rate),
            )
            return alike and nothing and read.unit in SERVES.get(base.unit, ())
        if read.unit == base.unit:
            return read._replace(length=base.length) == base
        simple = read == TextSpec(read.unit, read.length) and not base.contiguous
        return simple and read.unit in SERVES.get(base.unit, ())

    return serves


def _told(read: TextSpec) -> str:
    """What differs from a stream of any length, in words."""
    defaults = TextSpec(read.unit, read.length)
    words = [
        f"{name} {value:.3g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in read._asdict().items()
        if value != getattr(defaults, name)
    ]
    return " ".join([read.unit, f"of {read.length} tokens", *words])


def share(example: Example, base: TextSpec, read: TextSpec, pad: int) -> Example:
    """What a part reads of the text that was read as `base` says."""
    if base.unit == "pair" and read.unit == "sentence_pair":
        return _meeting(
            example, pad, apart=read.other_document_rate + read.nonadjacent_rate > 0
        )
    length = example.length
    if base.unit == "pair" and read.unit != "pair":
        follows = example.label == NEXT
        length = np.where(follows, length, example.first_length).astype(np.int32)
        none = np.full_like(example.label, -1)
        example = example._replace(first_length=length, label=none)
    width = min(read.length, example.token.shape[1])
    place = np.arange(width) + np.zeros_like(length)[:, None]
    return _chosen(example, place, np.minimum(length, width), pad)


def _meeting(example: Example, pad: int, *, apart: bool) -> Example:
    """The sentences at whose border two segments meet.

    apart: whether also those that do not follow each other; else the first alone.
    """
    num_raw = example.token.shape[1]
    place, first = np.arange(num_raw), example.first_length[:, None]
    start = (example.flags & SENTENCE) > 0
    begin = np.where(start & (place < first), place, 0).max(axis=1)
    inside = start & (place > first) & (place < example.length[:, None])
    end = np.where(inside, place, example.length[:, None]).min(axis=1)
    if not apart:
        end = np.where(example.label == NEXT, end, example.first_length)
    example = example._replace(
        first_length=(example.first_length - begin).astype(np.int32)
    )
    index = np.minimum(place + begin[:, None], num_raw - 1)
    return _chosen(example, index, end - begin, pad)


def _chosen(example: Example, index: np.ndarray, length: np.ndarray, pad: int):
    """A text of the tokens at index [B, R], up to `length` [B]."""
    here = np.arange(index.shape[1]) < length[:, None]
    token, flags = (
        np.take_along_axis(array, index, axis=1)
        for array in (example.token, example.flags)
    )
    return example._replace(
        token=np.where(here, token, pad).astype(np.int32),
        flags=np.where(here, flags, 0).astype(np.uint8),
        length=length.astype(np.int32),
        first_length=np.minimum(example.first_length, length).astype(np.int32),
    )
