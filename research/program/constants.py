"""Constants: arrays outside the state, which a loss reads and training never changes.

An objective names them (`Objective.constants`): a frozen teacher, vectors of words or
entities. They are sharded like parameters and have no moments. Checkpoints contain
their source and a checksum instead of the arrays.
"""

import functools
import hashlib
import zipfile
import zlib
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from etils import epath
from jax.sharding import Mesh, PartitionSpec

from research import networks, objectives
from research.config.identity import CONFIG_FILE, read_run_config
from research.contract.batch import CONSTANTS, ConstantSpec
from research.contract.errors import UserError
from research.distributed import processes, sharding
from research.files import vector_files
from research.files.existence import exists
from research.files.paths import user_path
from research.interop.huggingface import SOURCE


class Constants:
    """The constants of a program; nothing is read before `arrays` or `origins` is.

    Args:
      specs: by name, as the objective has them.
      mesh: of the program.
      vocabulary: `vocabulary_facts` of the run's data, which must equal those of a run
        that is read; not needed for shapes.

    Attributes:
      abstract: shapes with shardings, {"constants": {name: tree}}, as batches have
        them; {} if there are none.
    """

    def __init__(
        self,
        specs: Mapping[str, ConstantSpec],
        mesh: Mesh,
        vocabulary: Mapping[str, Any],
    ):
        self._specs, self._vocabulary = specs, vocabulary
        trees = {name: _abstract(spec.arrays, mesh) for name, spec in specs.items()}
        self.abstract = {CONSTANTS: trees} if trees else {}

    @property
    def arrays(self) -> dict[str, Any]:
        """The arrays of `abstract`, on the devices, which batches contain as well."""
        return {CONSTANTS: self._loaded[0]} if self.abstract else {}

    @property
    def zeros(self) -> dict[str, Any]:
        """Zeros in place of `arrays`, where shapes alone matter."""
        return jax.tree.map(
            lambda leaf: jnp.zeros(leaf.shape, leaf.dtype, device=leaf.sharding),
            self.abstract,
        )

    @property
    def origins(self) -> dict[str, dict[str, str]]:
        """Name -> `source`, and `checksum`, a hash of the arrays that are read."""
        return self._loaded[1]

    @functools.cached_property
    def _loaded(self) -> tuple[dict[str, Any], dict[str, dict[str, str]]]:
        arrays, origins = {}, {}
        for name, spec in self._specs.items():
            like, flag = self.abstract[CONSTANTS][name], f"objective.{name}"
            host = spec.values
            if host is None:
                found: Mapping[str, np.ndarray]
                words = _read_words(spec, like, flag)
                if words is not None:
                    found = words
                else:
                    found = _read(spec.source, like, flag, self._vocabulary)
                    found = _with_word_table(spec, found)
                host = _select(like, found, flag)
            origins[name] = {"source": spec.source, "checksum": _checksum(host)}
            arrays[name] = jax.tree.map(_to_devices, host, like)
        return arrays, origins


def _abstract(boxed: Any, mesh: Mesh) -> Any:
    """Shapes with shardings; an array without logical axes is replicated."""

    def with_sharding(
        names: PartitionSpec | None, leaf: jax.ShapeDtypeStruct
    ) -> jax.ShapeDtypeStruct:
        own = sharding.replicated(mesh)
        if names is not None and len(names):
            own = sharding.parameter_sharding(names, leaf.shape, mesh)
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=own)

    return jax.tree.map(
        with_sharding,
        networks.logical_axes(boxed),
        networks.unbox(boxed),
        is_leaf=lambda leaf: leaf is None or sharding.is_logical_axes(leaf),
    )


def _read_words(
    spec: ConstantSpec, like: Any, flag: str
) -> dict[str, np.ndarray] | None:
    """The table of random vectors, or of those in a file of word vectors.

    None: the source is neither of these.

    Raises:
      UserError: the vocabulary has no words, or the file's vectors another width.
    """
    kind, _, seed = spec.source.partition(":")
    in_file = spec.source.endswith(vector_files.ENDINGS)
    if not in_file and kind != "random":
        return None
    if not (spec.spelling or kind == "random"):
        raise networks.no_spelling(f"{flag}={spec.source}")
    shape = like["token"]["embedding"].shape
    if not in_file:
        if seed and not seed.isdecimal():
            raise UserError(
                f"{flag}={spec.source}: N of random:N must be a whole number"
            )
        table = np.random.default_rng(int(seed or 0)).uniform(-0.25, 0.25, shape)
        return {"token/embedding": table}
    words, vectors = vector_files.read_vectors(spec.source)
    if vectors.shape[1] != shape[1]:
        raise UserError(
            f"{flag}={spec.source} has vectors of {vectors.shape[1]} numbers; set "
            f"{flag}_width={vectors.shape[1]}, not {shape[1]}"
        )
    table, num_known = vector_files.rows_of(spec.spelling, words, vectors)
    num_words = sum(map(bool, spec.spelling))
    processes.print_from_process_0(
        f"{flag}: {spec.source} has {num_known:,} of the vocabulary's {num_words:,} "
        "words"
    )
    if not num_known:
        raise UserError(f"{flag}={spec.source} has no word of the vocabulary")
    missing = ((0, shape[0] - len(table)), (0, 0))
    return {"token/embedding": np.pad(table, missing)}


def _read(
    source: str, like: Any, flag: str, vocabulary: Mapping[str, Any]
) -> Mapping[str, np.ndarray]:
    """The arrays of a source by name, on the host.

    Raises:
      UserError: the source does not exist, or has another vocabulary.
    """
    if not source:
        raise UserError(f"{flag} is not set; it is a run's workdir, or hf:DIR")
    if not _is_arrays(source):
        from research.interop.partial_restore import saved_params  # imports Orbax

        return saved_params(source, like, **vocabulary, flag=flag).by_name
    try:
        with epath.Path(user_path(source)).open("rb") as file, np.load(file) as content:
            found = dict(content)
    except _UNREADABLE as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"{flag}={source} cannot be read ({reason})") from error
    for name, array in found.items():
        is_number = array.dtype.kind in "biuf"
        if not is_number or not np.isfinite(array).all():
            what = "not finite" if is_number else f"of dtype {array.dtype}, no numbers"
            raise UserError(f"{flag}={source}: array {name} is {what}")
    return found


_UNREADABLE = (OSError, ValueError, EOFError, TypeError, zipfile.BadZipFile, zlib.error)
"""What NumPy raises for a damaged .npz file, or one of another format."""


def _with_word_table(
    spec: ConstantSpec, found: Mapping[str, np.ndarray]
) -> Mapping[str, np.ndarray]:
    """The arrays of a source; for a run, with its word vectors.

    They are as `palimpsest vectors` writes them: with n-grams for fastText, sums of the
    two tables for GloVe.

    Raises:
      UserError: the run has no config.json.
    """
    if not spec.spelling or spec.source.startswith(SOURCE) or _is_arrays(spec.source):
        return found
    from research.checkpoints.checkpoint import as_tree  # imports Orbax

    path = epath.Path(user_path(spec.source))
    run = path if exists(path / CONFIG_FILE) else path.parent.parent
    config, params = read_run_config(run), as_tree(found)
    rows = networks.from_config(config["model"]).word_rows(params, spec.spelling)
    if rows is not None:
        missing = len(found["token/embedding"]) - len(rows.vectors)
        return {"token/embedding": np.pad(rows.vectors, ((0, missing), (0, 0)))}
    table = objectives.make_objective(**config["objective"]).word_table(params)
    return found if table is None else {"token/embedding": table}


def _is_arrays(source: str) -> bool:
    return source.endswith(".npz")


def _select(like: Any, found: Mapping[str, np.ndarray], flag: str) -> Any:
    """The tree of the wanted arrays, selected from those found.

    Raises:
      UserError: one is missing or has another shape; the line names it.
    """
    from research.checkpoints.checkpoint import path_name  # imports Orbax

    def select(path: tuple[Any, ...], leaf: jax.ShapeDtypeStruct) -> np.ndarray:
        name = path_name(path)
        if name not in found:
            raise UserError(
                f"{flag}: its source has no {name}, of shape {leaf.shape} in this "
                "config"
            )
        if found[name].shape != leaf.shape:
            raise UserError(
                f"{flag}: {name} has shape {found[name].shape} in its source, and "
                f"{leaf.shape} in this config"
            )
        return np.asarray(found[name], leaf.dtype)

    return jax.tree_util.tree_map_with_path(select, like)


def _checksum(host: Any) -> str:
    """A hash (16 hex digits) of the names, shapes, types and values of a tree."""
    total = hashlib.sha256()
    for path, leaf in jax.tree_util.tree_leaves_with_path(host):
        name = jax.tree_util.keystr(path)
        total.update(f"{name} {leaf.shape} {leaf.dtype};".encode())
        total.update(np.ascontiguousarray(leaf).tobytes())
    return total.hexdigest()[:16]


def _to_devices(host: np.ndarray, like: jax.ShapeDtypeStruct) -> jax.Array:
    return jax.make_array_from_callback(host.shape, like.sharding, host.__getitem__)
