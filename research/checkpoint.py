"""Checkpoints by Orbax: asynchronous, the newest few kept, parameters apart."""

from collections.abc import Mapping
from typing import Any

import jax
import orbax.checkpoint as ocp
from etils import epath

from research.errors import UserError
from research.state import State

FOLDER = "checkpoints"


class Checkpoints:
    """The checkpoints of one run, in its workdir; `close` waits for what is under way.

    Args:
      workdir: of the run.
      keep: how many of the newest stay.
    """

    def __init__(self, workdir: epath.PathLike, *, keep: int):
        self.folder = epath.Path(workdir).resolve() / FOLDER
        options = ocp.CheckpointManagerOptions(
            max_to_keep=keep, create=True, cleanup_tmp_directories=True
        )
        handlers = {
            "params": ocp.StandardCheckpointHandler(),
            "rest": ocp.StandardCheckpointHandler(),
            "facts": ocp.JsonCheckpointHandler(),
        }
        self.manager = ocp.CheckpointManager(
            self.folder, options=options, item_handlers=handlers
        )

    def latest(self) -> int | None:
        """The step of the newest finished checkpoint."""
        return self.manager.latest_step()

    def save(self, step: int, state: State, facts: Mapping[str, Any]) -> None:
        """Starts to save; the state may change as soon as this returns.

        Args:
          facts: plain values that a restart checks or goes on from.
        """
        rest = {k: v for k, v in state._asdict().items() if k != "params"}
        self.manager.save(
            step,
            args=ocp.args.Composite(
                params=ocp.args.StandardSave(state.params),
                rest=ocp.args.StandardSave(rest),
                facts=ocp.args.JsonSave(dict(facts)),
            ),
        )

    def restore(self, step: int, abstract: State) -> tuple[State, dict]:
        """The state at a step, laid out as `abstract` says, and its facts.

        Raises:
          UserError: the checkpoint is of another model or optimizer.
        """
        rest = {k: v for k, v in abstract._asdict().items() if k != "params"}
        saved = self.manager.item_metadata(step)
        _compare(self.folder / str(step), saved["params"], abstract.params)
        _compare(self.folder / str(step), saved["rest"], rest)
        found = self.manager.restore(
            step,
            args=ocp.args.Composite(
                params=ocp.args.StandardRestore(abstract.params),
                rest=ocp.args.StandardRestore(rest),
                facts=ocp.args.JsonRestore(),
            ),
        )
        return State(params=found.params, **found.rest), found.facts

    def close(self) -> None:
        self.manager.wait_until_finished()
        self.manager.close()


def _shapes(tree: Any) -> dict[str, tuple[int, ...]]:
    """The shape of each array of a tree, or of a checkpoint's metadata, by its path."""
    leaves = jax.tree_util.tree_flatten_with_path(
        tree, is_leaf=lambda x: hasattr(x, "shape")
    )[0]
    return {
        "/".join(str(_word(key)) for key in path): tuple(leaf.shape)
        for path, leaf in leaves
        if hasattr(leaf, "shape")
    }


def _word(key: Any) -> Any:
    for name in ("key", "name", "idx"):
        if hasattr(key, name):
            return getattr(key, name)
    return key


def _compare(where: epath.Path, saved: Any, wanted: Any) -> None:
    saved, wanted = _shapes(saved), _shapes(wanted)
    for name in sorted(saved.keys() | wanted.keys()):
        have, want = saved.get(name), wanted.get(name)
        if have != want:
            raise UserError(
                f"{where} is a checkpoint of another model: {name} has shape {have} "
                f"there and {want} in this config; use its config or another workdir"
            )


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
    found = {jax.tree_util.keystr(path): leaf for path, leaf in leaves}
    stayed = []

    def choose(path, leaf):
        name = jax.tree_util.keystr(path)
        if name not in found:
            stayed.append("/".join(str(_word(key)) for key in path))
            return leaf
        if found[name].shape != leaf.shape:
            raise UserError(
                f"train.init_from={source}: {name} has shape {found[name].shape} "
                f"there and {leaf.shape} in this config"
            )
        return jax.device_put(found[name].astype(leaf.dtype), leaf.sharding)

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
    folder = _checkpoint_folder(source)
    with ocp.Checkpointer(ocp.JsonCheckpointHandler()) as checkpointer:
        facts = checkpointer.restore(folder / "facts")
    if facts["vocabulary"] != vocabulary:
        raise UserError(
            f"train.init_from={source} was trained on another vocabulary; set "
            f"data.vocabulary to that run's workdir, {folder.parent.parent}"
        )
    with ocp.Checkpointer(ocp.StandardCheckpointHandler()) as checkpointer:
        saved = checkpointer.restore(folder / "params")
    for part in filter(None, scope.split("/")):
        if part not in saved:
            raise UserError(
                f"train.init_scope={scope!r}: {source} has no such part; "
                f"there is {', '.join(sorted(saved))}"
            )
        saved = saved[part]
    return saved


def _checkpoint_folder(source: str) -> epath.Path:
    path = epath.Path(source).expanduser().resolve()
    if (path / "params").exists():
        return path
    folder = path / FOLDER
    steps = (
        [int(p.name) for p in folder.iterdir() if p.name.isdigit()]
        if folder.exists()
        else []
    )
    if not steps:
        raise UserError(
            f"train.init_from={source}: no checkpoint there; give a run's workdir or "
            "one of its checkpoints' folders"
        )
    return folder / str(max(steps))
