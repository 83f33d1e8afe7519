"""Rows that pair Hugging Face's tensors with our parameters, and both directions."""

# L layers, D width, H heads, K head width, V rows of a table

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

LAYER = "{n}"
"""Stands for the number of a layer in a key."""
BLOCKS = "blocks"
"""Part of the path of a parameter that is stacked over the layers."""


class Sizes(NamedTuple):
    """Sizes of a model that its tensors' shapes do not tell."""

    vocab: int  # rows of Hugging Face's token table
    heads: int
    key_width: int
    table_width: int  # of the token table
    pad_id: int


class Change(NamedTuple):
    """What is done to one layer's tensor on its way in and out."""

    read: Callable[[np.ndarray, Sizes], np.ndarray]  # Hugging Face's to ours
    write: Callable[[np.ndarray, Sizes], np.ndarray]  # ours to Hugging Face's
    is_vocab: bool = False  # dim 0 is the vocabulary, which only our tables pad


def _offset(count: Callable[[Sizes], int]) -> Change:
    """Positions behind rows that no token has."""

    def write(x, sizes):
        return np.concatenate([np.zeros((count(sizes), x.shape[1]), x.dtype), x])

    return Change(lambda x, sizes: x[count(sizes) :], write)


def _split_heads(x: np.ndarray, sizes: Sizes) -> np.ndarray:
    return x.reshape(*x.shape[:-1], sizes.heads, sizes.key_width)


def _join_heads(x: np.ndarray, sizes: Sizes) -> np.ndarray:
    return x.reshape(*x.shape[:-2], sizes.heads * sizes.key_width)


SAME = Change(lambda x, sizes: x, lambda x, sizes: x)
TRANSPOSED = Change(lambda x, sizes: x.T, lambda x, sizes: x.T)
VOCAB = Change(lambda x, sizes: x, lambda x, sizes: x[: sizes.vocab], is_vocab=True)
VOCAB_OF_ROW = Change(
    lambda x, sizes: x[0], lambda x, sizes: x[None, : sizes.vocab], is_vocab=True
)
"""A bias [1, V]."""
ROW = Change(lambda x, sizes: x[0], lambda x, sizes: x[None])
"""A leading dim of size 1 more than ours."""
HEADS = Change(_join_heads, _split_heads)
"""The last dim [H, K] is [H * K] here."""
HEADS_OUT = Change(
    lambda x, sizes: _join_heads(x, sizes).T, lambda x, sizes: _split_heads(x.T, sizes)
)
"""A kernel [D, H, K] is [H * K, D] here."""
ONE_LESS = Change(lambda x, sizes: x + 1, lambda x, sizes: x - 1)
"""A scale that is stored as its difference from 1."""


def _read_qkv(x: np.ndarray, sizes: Sizes) -> np.ndarray:
    by_head = x.reshape(sizes.heads, 3, sizes.key_width, -1)
    joined = by_head.swapaxes(0, 1).reshape(len(x), -1)
    return joined.T if x.ndim == 2 else joined[:, 0]


def _write_qkv(x: np.ndarray, sizes: Sizes) -> np.ndarray:
    by_part = x.T.reshape(3, sizes.heads, sizes.key_width, -1)
    return by_part.swapaxes(0, 1).reshape(x.T.shape)


QKV_OF_HEADS = Change(_read_qkv, _write_qkv)
"""A weight [H * 3 * K, D] or its bias, each head's query, key and value in turn; here
those of all heads follow each other: kernels [D, H * K]."""
AFTER_TWO = _offset(lambda sizes: 2)
"""BART's positions start at row 2 (BartLearnedPositionalEmbedding.offset)."""
AFTER_PAD = _offset(lambda sizes: sizes.pad_id + 1)
"""RoBERTa's positions start behind the padding id's row
(create_position_ids_from_input_ids)."""


class Row(NamedTuple):
    """One tensor, or one in each layer, and the parameters that hold it."""

    key: str  # of Hugging Face; LAYER stands for the layer's number
    paths: tuple[str, ...]  # of our parameters; several split the last dim
    change: Change = SAME
    neutral: Callable[[Sizes], np.ndarray] | None = None  # what is written where we
    # have no such parameter, which computes the same
    instead: str = ""  # key that is read where there is no tensor `key`
    needs: str = ""  # path of another parameter, without which it is not written
    first: int = 0  # the first layer that has it; of those below, whose parameters have
    # no effect, they are 1


def row(key: str, path: str, change: Change = SAME, **rest: Any) -> Row:
    """A row of a tensor that one parameter holds."""
    return Row(key, (path,), change, **rest)


def dense(key: str, path: str, *, bias: bool = True) -> tuple[Row, ...]:
    """The rows of torch.nn.Linear, whose weight is [out, in]."""
    rows = row(f"{key}.weight", f"{path}/kernel", TRANSPOSED)
    return (rows, row(f"{key}.bias", f"{path}/bias")) if bias else (rows,)


def norm(key: str, path: str, *, bias: bool = True) -> tuple[Row, ...]:
    """The rows of a norm."""
    scale = row(f"{key}.weight", f"{path}/scale")
    return (scale, row(f"{key}.bias", f"{path}/bias")) if bias else (scale,)


def layers(prefix: str, stack: str, rows: Sequence[Row]) -> tuple[Row, ...]:
    """Rows of a block as those of a stack: `prefix` and `stack` come before them."""
    inside = f"{stack}/{BLOCKS}/"
    return tuple(
        r._replace(
            key=prefix + r.key,
            paths=tuple(inside + path for path in r.paths),
            needs=r.needs and inside + r.needs,
        )
        for r in rows
    )


class Found(NamedTuple):
    """What a row gives one parameter."""

    array: np.ndarray
    change: Change
    keys: tuple[str, ...]  # that were read


def find(
    rows: Sequence[Row],
    tensors: Mapping[str, np.ndarray],
    path: str,
    num_layers: int,
    sizes: Sizes,
) -> Found | None:
    """The parameter at `path`, from the first row that has its tensors.

    Args:
      num_layers: how many layers are stacked in the parameter.
    """
    for candidate in rows:
        if path not in candidate.paths:
            continue
        for key in filter(None, (candidate.key, candidate.instead)):
            keys = [key]
            if LAYER in key:
                own_layers = range(candidate.first, num_layers)
                keys = [key.replace(LAYER, str(n)) for n in own_layers]
            if keys and all(each in tensors for each in keys):
                parts = [_part(candidate, tensors[each], path, sizes) for each in keys]
                parts = [np.ones_like(parts[0])] * candidate.first + parts
                stacked = f"/{BLOCKS}/" in path
                array = np.stack(parts) if stacked else parts[0]
                return Found(array, candidate.change, tuple(keys))
    return None


def _part(candidate: Row, tensor: np.ndarray, path: str, sizes: Sizes) -> np.ndarray:
    array = candidate.change.read(tensor, sizes)
    if len(candidate.paths) == 1:
        return array
    parts = np.split(array, len(candidate.paths), axis=-1)
    return parts[candidate.paths.index(path)]


def write(
    rows: Sequence[Row], params: Mapping[str, np.ndarray], sizes: Sizes
) -> tuple[dict[str, np.ndarray], set[str]]:
    """Hugging Face's tensors, and the paths of the parameters that they hold.

    A row whose parameters do not exist is left out, or neutral; of several rows of one
    parameter the first is written.
    """
    tensors, written = {}, set()
    for r in rows:
        if written.issuperset(r.paths) or (r.needs and r.needs not in params):
            continue
        if all(path in params for path in r.paths):
            tensors |= dict(_write_row(r, [params[path] for path in r.paths], sizes))
            written |= {*r.paths}
        elif r.neutral:
            tensors[r.key] = r.neutral(sizes).astype(np.float32)
    return tensors, written


def _write_row(
    r: Row, arrays: list[np.ndarray], sizes: Sizes
) -> Iterator[tuple[str, np.ndarray]]:
    is_stacked = f"/{BLOCKS}/" in r.paths[0]
    for n in range(r.first, len(arrays[0]) if is_stacked else 1):
        parts = [array[n] if is_stacked else array for array in arrays]
        joined = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-1)
        tensor = r.change.write(joined, sizes)
        yield r.key.replace(LAYER, str(n)), np.ascontiguousarray(tensor, np.float32)
