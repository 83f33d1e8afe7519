"""Orbax checkpoints: saved asynchronously, verified before they are restored."""

import contextlib
import errno
import os
import time
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np
import orbax.checkpoint as ocp
from etils import epath

from research.contract.errors import UserError
from research.contract.state import State
from research.distributed import processes
from research.files import checksums
from research.files.existence import exists
from research.files.paths import absolute_path, is_in_bucket
from research.optimize.moving_average import exchange_average

FOLDER = checksums.CHECKPOINTS
TEMPORARY, DELETED, DAMAGED = ".orbax-checkpoint-tmp", ".deleted", ".damaged"
"""Suffixes of the folders of checkpoints that are not to be read."""

WRITE_ERRORS = tuple(
    os.strerror(code)
    for code in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES)
)
"""The system's messages when a file cannot be written."""


class Restored(NamedTuple):
    """The content of a checkpoint."""

    step: int
    state: State
    facts: dict[str, Any]


class Checkpoints:
    """The checkpoints of one run, in its workdir.

    A checkpoint is finished when its folder has its final name and its checksums, which
    are written before. In a bucket it has its name from the beginning, and is finished
    when Orbax has added a last file, commit_success.txt. In a run of several processes
    all call the same methods; process 0 writes what is not an array, chooses what to
    restore, and deletes.

    Args:
      workdir: the run's folder.
      keep: how many of the newest are kept.
    """

    def __init__(self, workdir: epath.PathLike, *, keep: int):
        self.folder = absolute_path(workdir) / FOLDER
        self.keep = keep
        self.best = 0  # a step that is kept however old it is
        self.kept_steps: Collection[int] = ()  # more of these
        self.saving: int | None = None  # the step that may not be finished yet
        self.saved_shapes: dict[str, tuple[int, ...]] = {}  # of its arrays
        self.is_process_0 = jax.process_index() == 0
        if self.is_process_0:
            self.folder.mkdir(parents=True, exist_ok=True)
            for path in self.folder.iterdir():
                if TEMPORARY in path.name or path.name.endswith(DELETED):
                    _delete_folder(path)
                elif path.name.isdigit() and not _is_committed(path):
                    _finish_or_delete(path)
        self.checkpointer = ocp.AsyncCheckpointer(
            ocp.CompositeCheckpointHandler(
                params=ocp.StandardCheckpointHandler(),
                rest=ocp.StandardCheckpointHandler(),
                facts=ocp.JsonCheckpointHandler(),
            ),
            async_options=ocp.options.AsyncOptions(
                post_finalization_callback=self._finish
            ),
        )

    def latest(self) -> int | None:
        """The step of the newest finished checkpoint."""
        return next(finished_steps(self.folder), None)

    def save(self, step: int, state: State, facts: Mapping[str, Any]) -> None:
        """Starts to save; the state may be overwritten as soon as this returns.

        The item `params` is what opens the run: the moving average if one is kept.

        Args:
          facts: JSON values that a restart checks or resumes from.

        Raises:
          UserError: the checkpoint before could not be written.
        """
        self.wait()
        self.saving = step
        state = exchange_average(state)
        self.saved_shapes = _shapes(state._asdict())
        rest = {k: v for k, v in state._asdict().items() if k != "params"}
        with self._name_write_errors():
            self.checkpointer.save(
                self.folder / str(step),
                args=ocp.args.Composite(
                    params=ocp.args.StandardSave(state.params),
                    rest=ocp.args.StandardSave(rest),
                    facts=ocp.args.JsonSave({"step": step, **facts}),
                ),
            )

    def check(self) -> None:
        """Deletes old checkpoints once the newest is finished; never waits for it.

        Raises:
          UserError: the newest could not be written.
        """
        with self._name_write_errors():
            self.checkpointer.check_for_errors()
        if self.is_process_0 and _is_finished(self.folder / str(self.saving)):
            self.saving = None
            old = list(finished_steps(self.folder))[self.keep :]
            for step in set(old) - {self.best, *self.kept_steps}:
                _delete_checkpoint(self.folder / str(step))

    def wait(self) -> None:
        """Waits until the newest is finished.

        Raises:
          UserError: it could not be written.
        """
        with self._name_write_errors():
            self.checkpointer.wait_until_finished()
        self.check()

    def close(self) -> None:
        """Waits until the newest is finished and releases Orbax's threads."""
        self.wait()
        self.checkpointer.close()

    def restore(self, abstract_state: State) -> Restored | None:
        """The newest undamaged checkpoint; None if there is none at all.

        A damaged one is reported and renamed, and the one before it is restored.

        Args:
          abstract_state: shapes with the shardings to restore to.

        Raises:
          UserError: it is of another model, optimizer or step, or all are damaged.
        """
        step = processes.broadcast_from_process_0(
            self._newest_undamaged() if self.is_process_0 else -1
        )
        return None if step < 0 else self._restore(abstract_state, step)

    def restore_best(self, abstract_state: State) -> State:
        """The state after the step `best`.

        Raises:
          UserError: its checkpoint is damaged.
        """
        self.wait()
        folder = self.folder / str(self.best)
        if self.is_process_0 and (damage := checksums.find_damage(folder)):
            raise UserError(
                f"{folder}, the best checkpoint, is damaged: {damage}; delete "
                f"{self.folder} to train from the beginning"
            )
        return self._restore(abstract_state, self.best).state

    def _restore(self, abstract_state: State, step: int) -> Restored:
        folder = self.folder / str(step)
        params = abstract_state.params
        rest = {k: v for k, v in abstract_state._asdict().items() if k != "params"}
        saved = checksums.item_metadata(self.checkpointer, folder)
        _check_same_shapes(folder, saved["params"], params)
        _check_same_shapes(folder, saved["rest"], rest)
        restored = self.checkpointer.restore(
            folder,
            args=ocp.args.Composite(
                params=ocp.args.StandardRestore(params),
                rest=ocp.args.StandardRestore(rest),
                facts=ocp.args.JsonRestore(),
            ),
        )
        if (own := restored.facts["step"]) != step:
            raise UserError(f"{folder} holds step {own}; rename it back, or delete it")
        state = State(params=restored.params, **restored.rest)
        return Restored(step, exchange_average(state), restored.facts)

    def _finish(self) -> None:
        """Reads what arrays a checkpoint has, and writes the checksums.

        It is called when all files are written, before Orbax renames or marks the
        folder, which in a bucket has its final name.

        Raises:
          UserError: an array that was saved is not there.
        """
        for path in self.folder.iterdir():
            is_temporary = path.name.startswith(f"{self.saving}{TEMPORARY}")
            if is_temporary or path.name == str(self.saving):
                items = checksums.item_metadata(self.checkpointer, path)
                written = _shapes({"params": items["params"], **items["rest"]})
                if written != self.saved_shapes:
                    raise UserError(
                        f"{self.folder}: step {self.saving} is not saved: its files "
                        f"have {len(written)} arrays of {len(self.saved_shapes)}"
                    )
                checksums.write_checksums(path)

    def _newest_undamaged(self) -> int:
        """Its step; -1 where there is no checkpoint at all. Renames damaged ones."""
        damaged = []
        for step in _saved_steps(self.folder):
            folder = self.folder / str(step)
            damage = checksums.find_damage(folder)
            if not damage:
                return step
            damaged.append(f"{folder} is damaged: {damage}")
            processes.print_from_process_0(f"warning: {damaged[-1]}; it is set aside")
            renamed = folder.with_name(folder.name + DAMAGED)
            if renamed.exists():
                renamed.rmtree()
            folder.rename(renamed)
        damaged += [str(p) for p in self.folder.iterdir() if p.name.endswith(DAMAGED)]
        if damaged:
            raise UserError(
                f"{self.folder} has no checkpoint that can be read ({damaged[0]}); "
                "delete this folder to train from the beginning"
            )
        return -1

    @contextlib.contextmanager
    def _name_write_errors(self) -> Iterator[None]:
        """Turns what Orbax raises where a file cannot be written into a UserError."""
        try:
            yield
        except Exception as error:
            if not (reason := _write_error(error)):
                raise
            if reason == os.strerror(errno.ENOENT):
                raise UserError(
                    f"{self.folder} was moved or deleted while the run wrote it: "
                    f"step {self.saving} is not saved"
                ) from error
            last = self.latest()
            start = "begins anew" if last is None else f"goes on from step {last}"
            raise UserError(
                f"{self.folder}: step {self.saving} could not be saved ({reason}); "
                f"with room to write, the same command {start}"
            ) from error


def _delete_folder(path: epath.Path) -> None:
    """Deletes a folder; threads of a failed save may add files or delete some."""
    for attempts_left in reversed(range(20)):
        try:
            return path.rmtree()
        except OSError as error:
            if error.errno == errno.ENOENT and not path.exists():
                return None
            busy = error.errno in (errno.ENOTEMPTY, errno.ENOENT)
            if not busy or not attempts_left:
                raise
        time.sleep(0.1)


def _delete_checkpoint(folder: epath.Path) -> None:
    """Deletes a finished checkpoint; if this is interrupted, it is not finished."""
    if is_in_bucket(folder):  # which would copy all files to rename them
        for name in (checksums.CHECKSUMS_FILE, checksums.COMMITTED_FILE):
            (folder / name).unlink(missing_ok=True)
    else:
        folder = folder.rename(folder.with_name(folder.name + DELETED))  # atomic
    folder.rmtree()


def _finish_or_delete(folder: epath.Path) -> None:
    """Marks a checkpoint whose files are all written, or deletes it.

    The process that saved it to a bucket was killed.
    """
    if checksums.has_checksums(folder):
        (folder / checksums.COMMITTED_FILE).write_text(
            "all files have checksums\n", "utf-8"
        )
    else:
        _delete_folder(folder)


def _write_error(error: BaseException | None) -> str:
    """The system's message where a file could not be written; "" if that is not it."""
    while error is not None:
        if isinstance(error, OSError) and error.errno:
            return os.strerror(error.errno)
        for message in WRITE_ERRORS:
            if message in str(error):
                return message
        error = error.__cause__ or error.__context__
    return ""


def _saved_steps(folder: epath.Path) -> list[int]:
    """Steps of the folders that Orbax has written, newest first."""
    if not exists(folder):
        return []
    named = [path for path in folder.iterdir() if path.name.isdigit()]
    steps = [int(path.name) for path in named if _is_committed(path)]
    return sorted(steps, reverse=True)


def _is_committed(folder: epath.Path) -> bool:
    """Whether Orbax has written a folder with a final name to its end."""
    return not is_in_bucket(folder) or ocp.utils.is_checkpoint_finalized(folder)


def _is_finished(folder: epath.Path) -> bool:
    return checksums.has_checksums(folder) and _is_committed(folder)


def finished_steps(folder: epath.Path) -> Iterator[int]:
    """Steps of the finished checkpoints in a folder, newest first."""
    return (
        step
        for step in _saved_steps(folder)
        if checksums.has_checksums(folder / str(step))
    )


def path_name(path: Any) -> str:
    """The name of a leaf from its key path, such as "blocks/dense/kernel"."""
    return jax.tree_util.keystr(path, simple=True, separator="/")


def as_tree(params: Mapping[str, Any]) -> dict[str, Any]:
    """Nested dicts of parameters that are named by their paths."""
    tree: dict[str, Any] = {}
    for path, array in params.items():
        *parts, name = path.split("/")
        branch = tree
        for part in parts:
            branch = branch.setdefault(part, {})
        branch[name] = array
    return tree


def check_finite(source: epath.PathLike, params: Any) -> None:
    """Checks parameters that were read, a tree of NumPy arrays.

    Raises:
      UserError: names the first that has a number which is not finite.
    """
    for path, leaf in jax.tree_util.tree_leaves_with_path(params):
        if not np.isfinite(leaf).all():
            raise UserError(
                f"{source}: {path_name(path)} has numbers that are not finite; give "
                "an earlier checkpoint, or a run that has not diverged"
            )


def _shapes(tree: Any) -> dict[str, tuple[int, ...]]:
    """The shape of each array of a tree, or of a checkpoint's metadata, by its name."""

    def has_shape(leaf: Any) -> bool:
        return hasattr(leaf, "shape")

    leaves = jax.tree_util.tree_flatten_with_path(tree, is_leaf=has_shape)[0]
    return {
        path_name(path): tuple(leaf.shape) for path, leaf in leaves if has_shape(leaf)
    }


def _check_same_shapes(folder: epath.Path, saved: Any, wanted: Any) -> None:
    """Raises UserError: a checkpoint has other arrays than are wanted."""
    saved, wanted = _shapes(saved), _shapes(wanted)
    for name in sorted(saved.keys() | wanted.keys()):
        if saved.get(name) != wanted.get(name):
            raise UserError(
                f"{folder} is of another model: {name} has shape {saved.get(name)} "
                f"there, here {wanted.get(name)}; use its config or another workdir"
            )
