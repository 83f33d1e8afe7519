"""The common text of objectives trained together, and what each reads of it."""

# B batch, R raw tokens an example

from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from research.contract.batch import NEXT, SENTENCE, Example, no_value
from research.contract.errors import UserError
from research.data.rows import TextSpec, pair


def common_text_spec(parts: Mapping[str, Any], length: int) -> TextSpec:
    """The text that is read for all parts; `derive_example` derives each part's text.

    Parts with the same unit read the longest of their texts or its beginning, with all
    arrays that any of them reads. If parts of a unit that takes a stride differ in
    length, rows start at random tokens, so that parts that read less still read every
    token equally often. If units differ, one must have the most structure
    (`TextSpec.structure`). A single text is derived from a pair: both spans if the
    second follows the first, else the first span. Spans that were too long lack tokens
    at either end (BERT), so that the derived text may have a gap between them. A pair
    is derived from another pair: the sentences on either side of its spans' boundary.

    Args:
      parts: name -> objective.

    Raises:
      UserError: the units cannot be derived from one of them, pairs differ in rates or
        lengths, or the parts read labels of different types.
    """
    specs = {name: part.text_spec(length) for name, part in parts.items()}
    label, *others = {spec.label for spec in specs.values()} - {""} or {""}
    if others:
        listed = ", ".join(f"{name}: {spec.label}" for name, spec in specs.items())
        raise UserError(
            "objectives that are trained together read one text, but not labels of "
            f"different types ({listed})"
        )
    arrays = tuple(sorted({name for spec in specs.values() for name in spec.arrays}))
    shared = {"label": label, "arrays": arrays}
    specs = {name: spec.replace(**shared) for name, spec in specs.items()}
    common = [
        base
        for base in specs.values()
        if all(_is_derivable(spec, base) for spec in specs.values())
    ]
    if not common:
        listed = "; ".join(f"{name}: {_describe(spec)}" for name, spec in specs.items())
        raise UserError(
            "objectives that are trained together read one text, but none of their "
            f"texts contains the others ({listed})"
        )
    longest = max(common, key=lambda spec: spec.length)
    if not longest.takes_stride or longest.contiguous:
        return longest
    random_start = any(
        spec.random_start or spec.length < longest.length for spec in specs.values()
    )
    return longest.replace(random_start=random_start)


def _is_derivable(spec: TextSpec, base: TextSpec) -> bool:
    """Whether text of `spec` can be derived from text of `base`."""
    spec, base = map(_whichever_start, (spec, base))
    if spec.unit == base.unit:
        same = spec if spec.pair_labels else spec.replace(length=base.length)
        return same == base
    if not 0 < spec.structure < base.structure or spec.has_pairs > base.has_pairs:
        return False
    if spec.pair_labels:
        spec, base = cast(pair.Unit, spec), cast(pair.Unit, base)
        rates = (base.other_document_rate, base.nonadjacent_rate)
        others = spec.replace(
            unit=base.unit,
            other_document_rate=base.other_document_rate,
            nonadjacent_rate=base.nonadjacent_rate,
            short_rate=base.short_rate,
        )
        own_rates = (spec.other_document_rate, spec.nonadjacent_rate)
        return others == base and own_rates in ((0, 0), rates)
    return spec == TextSpec(spec.unit, spec.length) and not base.contiguous


def _whichever_start(spec: TextSpec) -> TextSpec:
    """The spec without arrays, with rows that start at multiples of the stride."""
    start = {"random_start": False} if spec.random_start else {}
    return spec.replace(arrays=(), **start)


def _describe(spec: TextSpec) -> str:
    """The unit, the length and all fields with other values than the default."""
    words = [
        f"{name} {value:.3g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in spec.changed_fields().items()
    ]
    return " ".join([spec.unit, f"of {spec.length} tokens", *words])


def derive_example(
    example: Example, base: TextSpec, spec: TextSpec, pad_id: int
) -> Example:
    """The text of `spec` from an example of `base`, see `common_text_spec`."""
    is_other = spec.unit != base.unit
    if is_other and spec.pair_labels:
        spec = cast(pair.Unit, spec)
        nonadjacent = spec.other_document_rate + spec.nonadjacent_rate > 0
        return _boundary_sentences(example, pad_id, nonadjacent=nonadjacent)
    length = example.length
    if is_other and base.pair_labels:
        follows = example.label == NEXT
        length = np.where(follows, length, example.first_length).astype(np.int32)
        none = np.full_like(example.label, -1)
        example = example._replace(first_length=length, label=none)
    width = min(spec.width, example.token.shape[1])
    index = np.arange(width) + np.zeros_like(length)[:, None]
    return _select(example, index, np.minimum(length, width), pad_id)


def _boundary_sentences(example: Example, pad_id: int, *, nonadjacent: bool) -> Example:
    """The sentences on either side of the boundary of two segments.

    Args:
      nonadjacent: include both sentences even if the segments are not adjacent; if
        False, only the first sentence then.
    """
    num_raw = example.token.shape[1]
    index, first = np.arange(num_raw), example.first_length[:, None]
    start = (example.flags & SENTENCE) > 0
    begin = np.where(start & (index < first), index, 0).max(axis=1)
    inside = start & (index > first) & (index < example.length[:, None])
    end = np.where(inside, index, example.length[:, None]).min(axis=1)
    if not nonadjacent:
        end = np.where(example.label == NEXT, end, example.first_length)
    example = example._replace(
        first_length=(example.first_length - begin).astype(np.int32)
    )
    index = np.minimum(index + begin[:, None], num_raw - 1)
    return _select(example, index, end - begin, pad_id)


def _select(
    example: Example, index: np.ndarray, length: np.ndarray, pad_id: int
) -> Example:
    """The text of the tokens at `index` [B, R], up to `length` [B]."""
    valid = np.arange(index.shape[1]) < length[:, None]

    def take(array: np.ndarray, pad: int) -> np.ndarray:
        here = np.take_along_axis(array, index, axis=1)
        return np.where(valid, here, array.dtype.type(pad))

    return example._replace(
        token=take(example.token, pad_id),
        flags=take(example.flags, 0),
        length=length.astype(np.int32),
        first_length=np.minimum(example.first_length, length).astype(np.int32),
        arrays={
            name: take(array, no_value(array.dtype)) if array.ndim == 2 else array
            for name, array in example.arrays.items()
        },
    )
