"""Restores the parameters of another run, or a part of them, to start training from."""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
from etils import epath

from research.checkpoints.checkpoint import (
    FOLDER,
    check_finite,
    finished_steps,
    path_name,
)
from research.contract.errors import UserError
from research.data.documents import label_key
from research.distributed import processes
from research.files import checksums
from research.files.existence import exists
from research.files.json_files import read_json
from research.files.paths import absolute_path
from research.interop import int8_weights
from research.interop.huggingface import SOURCE
from research.interop.huggingface import restore as huggingface
from research.interop.huggingface.rows import BLOCKS


class Saved(NamedTuple):
    """Parameters to start from."""

    by_name: Mapping[str, np.ndarray]
    parts: list[str]  # what `scope` may name
    num_rows: Mapping[str, int]  # of tables that have fewer rows there than here
    unused: list[str]  # what no parameter of this run has


def restore_params(
    source: str,
    scope: str,
    params: Any,
    *,
    vocabulary: str,
    num_pieces: int = 0,
    labels: Sequence[str] = (),
    layers: Sequence[int] = (),
    of_vocabulary: Collection[str] | None = None,
) -> tuple[Any, list[str]]:
    """Replaces this run's parameters by those of the same name in another model.

    Args:
      source: the other run's workdir, one of its checkpoints' folders, or hf:DIR, a
        model in Hugging Face's layout.
      scope: the subtree of its parameters to start from, such as "discriminator"; "":
        all of them.
      params: this run's initial parameters, which stay where the source has none.
      vocabulary: hash of this run's vocabulary; the other run must have the same if a
        parameter that it gives belongs to those tokens.
      num_pieces: how many pieces the vocabulary's model file has.
      labels: of this run, whose order a head of the source gets; see
        `in_label_order`.
      layers: the source's layers, from 0, that this run's layers start from; (): it has
        as many.
      of_vocabulary: names of the parameters that have a row for each token; None: any
        may have.

    Returns:
      the parameters, and the names of those that are missing in the source.

    Raises:
      UserError: nothing there, nothing of that name, another shape or vocabulary.
    """
    checks = {"vocabulary": vocabulary, "num_pieces": num_pieces, "labels": labels}
    checks["of_vocabulary"] = of_vocabulary
    saved = saved_params(source, _with_layers(params, layers), scope, **checks)
    by_name, missing = _pick_layers(source, saved.by_name, layers), []
    by_name = _for_two_stacks(by_name, params)

    _check_shapes(source, scope, by_name, saved.parts, params)

    def restore(path, leaf):
        name = path_name(path)
        if name not in by_name:
            missing.append(name)
            return leaf
        host = by_name[name].astype(leaf.dtype)
        array = jax.make_array_from_callback(
            leaf.shape, leaf.sharding, lambda index: host[index]
        )
        if name not in saved.num_rows:
            return array
        missing.append(f"{name} from row {saved.num_rows[name]} on")
        return _keep_rows(array, leaf, saved.num_rows[name])

    restored = jax.tree_util.tree_map_with_path(restore, params)
    names = f", but for {', '.join(missing)}" if missing else ""
    processes.print_from_process_0(f"reads the parameters of {source}{names}")
    if saved.unused:
        processes.print_from_process_0(
            f"not used of {source}: {', '.join(saved.unused)}"
        )
    return restored, missing


def check_source(
    source: str,
    scope: str,
    params: Any,
    *,
    vocabulary: str,
    num_pieces: int = 0,
    labels: Sequence[str] = (),
    layers: Sequence[int] = (),
    of_vocabulary: Collection[str] | None = None,
) -> epath.Path | None:
    """Checks what `restore_params` checks, without reading a run's parameters.

    Args:
      params: their shapes.

    Returns:
      the folder of a run's checkpoint, if `source` names a run.

    Raises:
      UserError: as `restore_params`.
    """
    if source.startswith(SOURCE):
        checks = {"vocabulary": vocabulary, "num_pieces": num_pieces}
        saved = saved_params(source, _with_layers(params, layers), scope, **checks)
        by_name = _pick_layers(source, saved.by_name, layers)
        _check_shapes(source, scope, by_name, saved.parts, params)
        return None
    folder = find_checkpoint(source)
    part = saved_shapes(folder, scope, source)
    by_name = _pick_layers(source, _by_name(part), layers)
    by_name = _for_two_stacks(by_name, params)
    if _has_tokens(by_name, params, of_vocabulary):
        facts = load_on_host(folder, "facts")["facts"]
        _check_vocabulary(folder, facts, vocabulary, source, "train.init_from")
    _check_shapes(source, scope, by_name, sorted(part), params)
    return folder


def saved_shapes(folder: epath.Path, scope: str, source: str) -> Mapping[str, Any]:
    """The shapes of a checkpoint's parameters, with the names of today.

    Args:
      scope, source: as of `restore_params`.

    Raises:
      UserError: there is no such part.
    """
    with ocp.Checkpointer(_handler()) as checkpointer:
        tree = checksums.item_metadata(checkpointer, folder)["params"].tree
    tree = int8_weights.float_shapes(tree)
    return _part(tree, scope, source)


def _with_layers(params: Any, layers: Sequence[int]) -> Any:
    """The parameters, or their shapes with as many layers as are read of a source."""
    if not layers:
        return params

    def shape(path, leaf):
        if BLOCKS not in path_name(path).split("/"):
            return leaf
        return jax.ShapeDtypeStruct((max(layers) + 1, *leaf.shape[1:]), leaf.dtype)

    return jax.tree_util.tree_map_with_path(shape, params)


def _pick_layers(
    source: str, by_name: Mapping[str, Any], layers: Sequence[int]
) -> Mapping[str, Any]:
    """The arrays, or their shapes, with these layers alone.

    Raises:
      UserError: the source has fewer.
    """
    picked = dict(by_name)
    of_blocks = [name for name in by_name if BLOCKS in name.split("/")]
    if layers and not of_blocks:
        raise UserError(f"train.init_layers: {source} has no layer {max(layers)}")
    for name in of_blocks if layers else ():
        there = by_name[name].shape
        if max(layers) >= there[0]:
            raise UserError(
                f"train.init_layers names layer {max(layers)}, but {source} has layers "
                f"0 to {there[0] - 1}"
            )
        if isinstance(by_name[name], np.ndarray):
            picked[name] = by_name[name][np.array(layers)]
        else:
            picked[name] = jax.ShapeDtypeStruct((len(layers), *there[1:]), np.float32)
    return picked


IN_ONE_STACK = {
    **{"encoder": "stack", "encoder_embeddings": "embeddings"},
    **{"decoder": "stack", "decoder_embeddings": "embeddings"},
    "decoder_token": "token",
}
"""A module of an encoder-decoder -> that of a network with one stack."""


TEXT = "text/"
"""What the names of the text's tower of `two_towers` begin with."""


def _for_two_stacks(by_name: Mapping[str, Any], params: Any) -> Mapping[str, Any]:
    """The arrays, or their shapes, of one stack also under the names of two.

    An encoder and a decoder each take the first layers, as many as they have (Chi et
    al. 2020; CZWin32768/XNLG, xnlg/src/model/__init__.py). A tower of texts takes all.
    """
    if not any(name.startswith("stack/") for name in by_name):
        return by_name
    found = dict(by_name)
    for name, leaf in _by_name(params).items():
        module, _, rest = name.partition("/")
        there = by_name.get(f"{IN_ONE_STACK.get(module, '')}/{rest}")
        if name.startswith(TEXT):
            there = by_name.get(rest)
        if there is None or name in by_name:
            continue
        if BLOCKS in name.split("/") and len(leaf.shape) == len(there.shape):
            count = min(leaf.shape[0], there.shape[0])
            shape = (count, *there.shape[1:])
            is_array = isinstance(there, np.ndarray)
            there = (
                there[:count] if is_array else jax.ShapeDtypeStruct(shape, np.float32)
            )
        found[name] = there
    return found


def _check_shapes(
    source: str, scope: str, by_name: Mapping[str, Any], parts: list[str], params: Any
) -> None:
    """Raises UserError: a parameter has another shape there, or none has our name."""
    ours = _by_name(params)
    shared = [name for name in ours if name in by_name]
    if not shared:
        raise UserError(
            f"train.init_from={source}: no parameter there has a name of this model's; "
            f"train.init_scope={scope!r} may name the part to start from: "
            f"{', '.join(parts)}"
        )
    for name in shared:
        there, here = tuple(by_name[name].shape), tuple(ours[name].shape)
        if there != here:
            raise UserError(
                f"train.init_from={source}: {name} has shape {there} there and {here} "
                "in this config"
            )


def _by_name(tree: Any) -> dict[str, Any]:
    """Path -> leaf."""
    leaves = jax.tree_util.tree_flatten_with_path(tree)[0]
    return {path_name(path): leaf for path, leaf in leaves}


def _has_tokens(
    by_name: Mapping[str, Any], params: Any, of_vocabulary: Collection[str] | None
) -> bool:
    """Whether parameters that a source gives may have a row for each token."""
    return of_vocabulary is None or any(
        name in by_name and name in of_vocabulary for name in _by_name(params)
    )


def _check_vocabulary(
    folder: epath.Path,
    facts: Mapping[str, Any],
    vocabulary: str,
    source: str,
    flag: str,
) -> None:
    """Raises UserError: the run of a checkpoint has another vocabulary."""
    if facts["vocabulary"] != vocabulary:
        raise UserError(
            f"{flag}={source} was trained on another vocabulary; set "
            f"data.vocabulary to that run's workdir, {folder.parent.parent}"
        )


def _part(saved: Mapping[str, Any], scope: str, source: str) -> Mapping[str, Any]:
    """The subtree of a run's parameters that `scope` names.

    A discriminator whose table is a sum with differences has the sum, too.

    Raises:
      UserError: there is none.
    """
    saved = with_summed_table(saved) if scope else saved
    for part in filter(None, scope.split("/")):
        if not isinstance(saved, Mapping) or part not in saved:
            known = sorted(saved) if isinstance(saved, Mapping) else []
            raise UserError(
                f"train.init_scope={scope!r}: {source} has no such part; "
                f"there is {', '.join(known) or 'none'}"
            )
        saved = saved[part]
    return saved


def with_summed_table(params: Mapping[str, Any]) -> Mapping[str, Any]:
    """The parameters, or their shapes, with the token table of a discriminator.

    With objective.tie gdes it is the sum of the generator's and of differences.
    """
    network = params.get("discriminator", {})
    difference = network.get("token", {}).get("difference")
    if difference is None:
        return params
    table = params["generator"]["token"]["embedding"]
    table = table + difference if isinstance(table, np.ndarray) else table
    return {**params, "discriminator": {**network, "token": {"embedding": table}}}


def _keep_rows(array: jax.Array, initial: jax.Array, num_rows: int) -> jax.Array:
    """The first rows of `array`, and the others of `initial`."""

    def select(array: jax.Array, initial: jax.Array) -> jax.Array:
        index = jax.lax.broadcasted_iota(jnp.int32, array.shape, 0)
        return jnp.where(index < num_rows, array, initial)

    return jax.jit(select, out_shardings=initial.sharding)(array, initial)


def saved_params(
    source: str,
    params: Any,
    scope: str = "",
    *,
    vocabulary: str,
    num_pieces: int = 0,
    labels: Sequence[str] = (),
    flag: str = "train.init_from",
    of_vocabulary: Collection[str] | None = None,
) -> Saved:
    """The parameters of another model, on the host.

    Args:
      source, scope, vocabulary, num_pieces, labels, of_vocabulary: as of
        `restore_params`.
      params: those to find, or their shapes.
      flag: the key that names the source, for errors.

    Raises:
      UserError: as `restore_params`.
    """
    if source.startswith(SOURCE):
        shapes = {name: leaf.shape for name, leaf in _by_name(params).items()}
        start = TEXT if f"{TEXT}token/embedding" in shapes else ""
        own = {
            n.removeprefix(start): s for n, s in shapes.items() if n.startswith(start)
        }
        checks = {"vocabulary": vocabulary, "num_pieces": num_pieces}
        found = huggingface.restore(source, scope, own, **checks)
        by_name = in_label_order(source, found.params, found.labels, labels)
        by_name = {start + name: array for name, array in by_name.items()}
        num_rows = {start + name: count for name, count in found.num_rows.items()}
        return Saved(by_name, found.unused, num_rows, found.unused)
    folder = find_checkpoint(source, flag)
    content = load_on_host(folder, "params", "facts")
    saved, facts = _part(content["params"], scope, source), content["facts"]
    by_name = _by_name(saved)
    if _has_tokens(_for_two_stacks(by_name, params), params, of_vocabulary):
        _check_vocabulary(folder, facts, vocabulary, source, flag)
    by_name = in_label_order(source, by_name, facts.get("labels", ()), labels)
    return Saved(by_name, sorted(saved), {}, [])


UNNAMED = "LABEL_"
"""With a number, the name of a label in a config.json that names none."""


def in_label_order(
    source: str,
    by_name: Mapping[str, np.ndarray],
    theirs: Sequence[str],
    ours: Sequence[str],
) -> Mapping[str, np.ndarray]:
    """The parameters of a model with the values of its head in the order of our labels.

    Where its labels are others, as many, they keep their order, and a line says so.
    """
    of_head = [
        name
        for name, array in by_name.items()
        if name.startswith(huggingface.HEAD_VALUES)
        and array.shape[-1:] == (len(ours),) != (1,)
    ]
    theirs, ours = list(theirs), list(ours)
    if not of_head or theirs == ours or len(theirs) != len(ours):
        return by_name
    for spelled in (str, _spelled_alike):
        keys, wanted = (list(map(spelled, labels)) for labels in (theirs, ours))
        if sorted(keys) == sorted(wanted) and len({*keys}) == len(keys):
            order = [keys.index(key) for key in wanted]
            return {**by_name} | {name: by_name[name][..., order] for name in of_head}
    processes.print_from_process_0(
        f"the head of {source} has the labels {', '.join(theirs)}; its values are read "
        f"in this order as those of {', '.join(ours)}"
    )
    return by_name


def _spelled_alike(label: str) -> str:
    """A label without case and prefix: equal for two spellings of one label."""
    return label_key(label.removeprefix(UNNAMED)).casefold()


def load_on_host(
    folder: epath.Path, *items: str, keep_int8: bool = False
) -> dict[str, Any]:
    """The content of a checkpoint as NumPy arrays: its devices may not be here.

    Args:
      items: of "params", "rest" and "facts".
      keep_int8: parameters that are stored as integers stay so (`int8_weights`); else
        they are float32, of the same values.

    Raises:
      UserError: a parameter is not finite.
    """
    with ocp.Checkpointer(_handler()) as checkpointer:
        saved = checksums.item_metadata(checkpointer, folder)
        as_numpy = ocp.RestoreArgs(restore_type=np.ndarray)
        args = {
            item: ocp.args.JsonRestore()
            if item == "facts"
            else ocp.args.PyTreeRestore(
                restore_args=jax.tree.map(lambda _: as_numpy, saved[item].tree)
            )
            for item in items
        }
        restored = checkpointer.restore(folder, args=ocp.args.Composite(**args))
    restored = {item: restored[item] for item in items}
    if "params" in items:
        check_finite(folder, restored["params"])
        if not keep_int8:
            restored["params"] = int8_weights.as_float(restored["params"])
    return restored


def _handler() -> ocp.CompositeCheckpointHandler:
    """Reads the items of a checkpoint."""
    return ocp.CompositeCheckpointHandler(
        params=ocp.PyTreeCheckpointHandler(),
        rest=ocp.PyTreeCheckpointHandler(),
        facts=ocp.JsonCheckpointHandler(),
    )


def source_digest(source: str) -> str:
    """What processes compare of the parameters that each reads for train.init_from.

    It is the step and checksums of a run's checkpoint, or a hash of a model's weights.

    It is "" in a run of one process.

    Raises:
      UserError: there is none.
    """
    if jax.process_count() == 1:
        return ""
    if not source.startswith(SOURCE):
        folder = find_checkpoint(source)
        listed = folder / checksums.CHECKSUMS_FILE  # old checkpoints have none
        return f"{folder.name} {listed.read_bytes() if exists(listed) else b''}"
    digest = hashlib.blake2b()
    for path in sorted(Path(huggingface.find_folder(source)).rglob("*.safetensors")):
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "blake2b").digest())
    return digest.hexdigest()


def find_checkpoint(
    source: epath.PathLike, flag: str = "train.init_from"
) -> epath.Path:
    """The folder of the checkpoint that opens a run.

    It is the best one, where the run has ended and has train.best_metric; else the
    newest undamaged one.

    Args:
      source: the workdir, or the folder of one checkpoint.
      flag: the key or flag that names it, for errors.

    Raises:
      UserError: there is none that can be read.
    """
    path = absolute_path(source)
    best, last = _steps_of_result(path)
    if best:
        source = path = path / FOLDER / str(best)
    if exists(path / "params"):
        if damage := checksums.find_damage(path):
            raise UserError(f"{flag}={source} is damaged: {damage}")
        return path
    steps = [*finished_steps(path / FOLDER)]
    if last and steps and last not in steps:
        processes.print_from_process_0(
            f"warning: {path} ended at step {last}, whose checkpoint is missing"
        )
    for step in steps:
        folder = path / FOLDER / str(step)
        damage = checksums.find_damage(folder)
        if not damage:
            return folder
        processes.print_from_process_0(f"warning: {folder} is damaged: {damage}")
    fix = "give a run's workdir or one of its checkpoints' folders"
    if flag == "--workdir":  # it is a run
        fix = "the run has saved none yet, or they were deleted or are damaged"
    raise UserError(f"{flag}={source}: no checkpoint there to read; {fix}")


def _steps_of_result(workdir: epath.Path) -> tuple[int, int]:
    """The steps that result.json names as the best and as the last one; 0: none."""
    if not exists(workdir / "result.json"):
        return 0, 0
    remedy = "delete it: the command of the run makes it again"
    fields = {"best_step": int, "steps": int}
    result = read_json(workdir / "result.json", remedy, fields)
    return result["best_step"], result["steps"]
