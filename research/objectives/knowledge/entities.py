"""The table of entities and their names, to which linked texts refer."""

# B batch, L length, R raw tokens, M mentions of a row, A names, C candidates of a name,
# N entities, E width

import functools
import zipfile
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from research.contract.batch import ConstantSpec, Example, VocabInfo
from research.contract.errors import UserError
from research.data.read.formats.linked import LINK
from research.files.paths import user_path
from research.objectives.knowledge import aligned
from research.objectives.layout import input_format

NAME = "entities"
"""The name of the constants and of the field with their source."""

NONE, MASK = 0, 1
"""Rows of the table of entities: no entity, with a vector of 0, and the mask, which
replaces the candidates of a masked mention. Name 0 has no candidates, name 1 the mask.
"""

FIRST_NAME = 2
"""The number of the first name of an entity."""

MAX_CANDIDATES = 5
"""The most entities of a name that are printed."""

RANDOM = "random"
TABLE = "the file entities.npz that palimpsest link writes beside the linked texts"


class Sizes(NamedTuple):
    """Sizes of a table."""

    names: int  # A
    candidates: int  # C
    entities: int  # N
    width: int  # E


def table_sizes(source: str) -> Sizes:
    """The sizes of the table in an .npz file of `palimpsest link`.

    Args:
      source: the file, or "random" for small arrays in tests.

    Raises:
      UserError: it cannot be read or is not such a file.
    """
    if source == RANDOM:
        return Sizes(names=64, candidates=3, entities=40, width=16)
    if not source:
        raise UserError(f"objective.entities is not set; it is {TABLE}")
    return _read_sizes(user_path(source))


_UNREADABLE = (
    *(OSError, ValueError, KeyError, EOFError, TypeError),
    *(zipfile.BadZipFile, zlib.error),
)
"""NumPy's errors for a file that is damaged or not an .npz file."""


@functools.lru_cache(maxsize=8)
def _read_sizes(path: str) -> Sizes:
    try:
        with np.load(path) as file:
            shapes = [file[name].shape for name in ("candidate", "prior", "vectors")]
    except _UNREADABLE as error:
        raise UserError(
            f"objective.entities={path} is not a table of palimpsest link, an .npz "
            "file of vectors, candidate and prior"
        ) from error
    (names, candidates), other, (entities, width) = shapes
    if other != (names, candidates):
        raise UserError(
            f"objective.entities={path}: candidate has shape {[names, candidates]}, "
            f"and prior {[*other]}; they must be the same"
        )
    return Sizes(names, candidates, entities, width)


def constants(source: str, *, shuffled: bool = False) -> dict[str, ConstantSpec]:
    """candidate [A, C] int32 and prior [A, C] of names, and vectors [N, E].

    candidate holds indices into vectors, NONE beyond those of a name.

    Args:
      shuffled: vectors are permuted among entities (a control with the same values).
    """
    sizes = table_sizes(source)
    shapes = {
        "candidate": ((sizes.names, sizes.candidates), jnp.int32),
        "prior": ((sizes.names, sizes.candidates), jnp.float32),
        "vectors": ((sizes.entities, sizes.width), jnp.float32),
    }
    arrays = {n: jax.ShapeDtypeStruct(*shape) for n, shape in shapes.items()}
    values = None
    if source == RANDOM:
        values = _random_table(sizes)
    elif shuffled:
        with np.load(user_path(source)) as file:
            values = {name: file[name] for name in arrays}
    if shuffled:
        first = MASK + 1
        order = first + np.random.default_rng(0).permutation(sizes.entities - first)
        assert values is not None
        vectors = values["vectors"].copy()
        vectors[first:] = vectors[order]
        values = values | {"vectors": vectors}
    return {NAME: ConstantSpec(source, arrays, values=values)}


def _random_table(sizes: Sizes) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    shape = (sizes.names, sizes.candidates)
    candidate = rng.integers(MASK + 1, sizes.entities, shape).astype(np.int32)
    prior = rng.dirichlet(np.ones(sizes.candidates), sizes.names).astype(np.float32)
    candidate[:FIRST_NAME], prior[:FIRST_NAME] = NONE, 0
    candidate[MASK, 0], prior[MASK, 0] = MASK, 1
    vectors = rng.normal(0, 0.3, (sizes.entities, sizes.width)).astype(np.float32)
    vectors[NONE] = 0
    return {"candidate": candidate, "prior": prior, "vectors": vectors}


def spell_name(source: str, number: int) -> str:
    """The text of a name and its entities, from names.tsv next to the table."""
    rows = () if source == RANDOM else _name_rows(user_path(source))
    if not rows:
        return f"name {number}"
    text, *found = rows[number].split("\t")
    more = f" and {len(found) - MAX_CANDIDATES} more"
    shown = ", ".join(found[:MAX_CANDIDATES])
    return f"{text} ({shown}{more if len(found) > MAX_CANDIDATES else ''})"


@functools.lru_cache(maxsize=2)
def _name_rows(path: str) -> tuple[str, ...]:
    """The lines of names.tsv next to a table; (): no such file."""
    names = Path(path).parent / "names.tsv"
    return tuple(names.read_text("utf-8").splitlines()) if names.is_file() else ()


def spell_read(source: str, number: int, own: int = -1) -> str:
    """What a mention reads: the candidates of the name `number`; "it" for its own."""
    known = {MASK: "the mask's entity", NONE: "none", own: "it"}
    return known.get(number) or spell_name(source, number)


class Mentions(NamedTuple):
    """The mentions of a row that fit: [B, M] each; 0 in unused slots."""

    name: np.ndarray  # int32, the number of a name; NONE: unused
    first: np.ndarray  # int32, the position of the first token
    last: np.ndarray  # int32, the position of the last token


def find_mentions(
    example: Example,
    batch: dict[str, np.ndarray],
    vocab: VocabInfo,
    objective: Any,
    count: int,
) -> Mentions:
    """The first M = `count` mentions of each row.

    Args:
      batch: the rows, as for `aligned.raw_index`.
      objective: a wrapped one with a field `entities`.

    Raises:
      UserError: a text links a name that the table lacks.
    """
    link = example.arrays[LINK]
    num_names = table_sizes(objective.entities).names
    if link.max(initial=0) >= num_names:
        raise UserError(
            f"a text links name {link.max()}, but objective.entities="
            f"{objective.entities} has names {FIRST_NAME} to {num_names - 1}; give the "
            "table that palimpsest link wrote with the text"
        )
    index = aligned.raw_index(example, batch, vocab, objective.base_objective)
    link = aligned.at_positions(link, index, -1)
    begins = link >= FIRST_NAME
    nth = np.cumsum(begins, axis=1)
    first, used = input_format.scored_positions(begins & (nth <= count), count)
    # A mention continues as long as tokens inside a mention follow.
    inside = np.append(link[:, 1:] == 0, np.zeros((len(link), 1), bool), axis=1)
    columns = np.arange(link.shape[1])
    stop = np.where(inside, link.shape[1], columns)
    stop = np.minimum.accumulate(stop[:, ::-1], axis=1)[:, ::-1]
    last = np.where(used, np.take_along_axis(stop, first, axis=1), 0)
    name = np.where(used, np.take_along_axis(link, first, axis=1), NONE)
    return Mentions(*(array.astype(np.int32) for array in (name, first, last)))
