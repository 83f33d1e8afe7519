"""Another run's parameters, to start from."""

import sys
from typing import Any

import jax
from etils import epath

from research.checkpoints import checksums
from research.checkpoints.checkpoint import FOLDER, finished, named, on_host
from research.errors import UserError


def initial_params(
    source: str, scope: str, fresh: Any, *, vocabulary: str
) -> tuple[Any, list[str]]:
    """Another run's parameters, put where this run's have the same name.

    Args:
      source: its workdir, or one of its checkpoints' folders.
      scope: the part of its tree to start from, as "discriminator"; "": all of it.
      fresh: this run's parameters, which stay where the source has none.
      vocabulary: hash of this run's; the other's is to be the same, for its token
        table tells of other pieces.

    Returns:
      the parameters, and the names of those that stayed fresh.

    Raises:
      UserError: nothing there, nothing of that name, another shape or vocabulary.
    """
    saved = _saved_params(source, scope, vocabulary)
    leaves = jax.tree_util.tree_flatten_with_path(saved)[0]
    found = {named(path): leaf for path, leaf in leaves}
    stayed = []

    def choose(path, leaf):
        name = named(path)
        if name not in found:
            stayed.append(named(path))
            return leaf
        if found[name].shape != leaf.shape:
            raise UserError(
                f"train.init_from={source}: {name} has shape {found[name].shape} "
                f"there and {leaf.shape} in this config"
            )
        host = found[name].astype(leaf.dtype)
        return jax.make_array_from_callback(
            leaf.shape, leaf.sharding, lambda index: host[index]
        )

    params = jax.tree_util.tree_map_with_path(choose, fresh)
    if len(stayed) == len(jax.tree.leaves(fresh)):
        raise UserError(
            f"train.init_from={source}: no parameter there has a name of this model's; "
            f"train.init_scope={scope!r} may name the part to start from: "
            f"{', '.join(sorted(saved))}"
        )
    return params, stayed


def _saved_params(source: str, scope: str, vocabulary: str) -> Any:
    """The part of a checkpoint's parameters that `scope` names, on the host."""
    folder = newest(source)
    if on_host(folder, "facts")["facts"]["vocabulary"] != vocabulary:
        raise UserError(
            f"train.init_from={source} was trained on another vocabulary; set "
            f"data.vocabulary to that run's workdir, {folder.parent.parent}"
        )
    saved = on_host(folder, "params")["params"]
    for part in filter(None, scope.split("/")):
        if part not in saved:
            raise UserError(
                f"train.init_scope={scope!r}: {source} has no such part; "
                f"there is {', '.join(sorted(saved))}"
            )
        saved = saved[part]
    return saved


def newest(source: str) -> epath.Path:
    """The newest whole checkpoint there, or the very one that is named."""
    path = epath.Path(source).expanduser().resolve()
    if (path / "params").exists():
        if why := checksums.damage(path):
            raise UserError(f"train.init_from={source} is damaged: {why}")
        return path
    for step in finished(path / FOLDER):
        folder = path / FOLDER / str(step)
        if why := checksums.damage(folder):
            print(f"warning: {folder} is damaged: {why}", file=sys.stderr, flush=True)
        else:
            return folder
    raise UserError(
        f"train.init_from={source}: no checkpoint there to read; give a run's "
        "workdir or one of its checkpoints' folders"
    )
