"""Checkpoints by Orbax: asynchronous, checked before they are read, the newest kept."""

import contextlib
import errno
import os
import sys
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np
import orbax.checkpoint as ocp
from etils import epath

from research.checkpoints import checksums
from research.distributed import processes
from research.errors import UserError
from research.run.state import State

FOLDER = "checkpoints"
TEMPORARY, DELETED, DAMAGED = ".orbax-checkpoint-tmp", ".deleted", ".damaged"

FAILINGS = tuple(
    os.strerror(code)
    for code in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES)
)
"""What the system says when a file cannot be written."""


class Restored(NamedTuple):
    """What a checkpoint held."""

    step: int
    state: State
    facts: dict[str, Any]


class Checkpoints:
    """The checkpoints of one run, in its workdir; `close` waits for what is under way.

    A checkpoint is finished when its folder has its final name and its checksums, which
    are written before. In a run of several processes all call the same methods;
    process 0 writes what is not an array, chooses and deletes.

    Args:
      workdir: of the run.
      keep: how many of the newest stay.
    """

    def __init__(self, workdir: epath.PathLike, *, keep: int):
        self.folder = epath.Path(workdir).resolve() / FOLDER
        self.keep = keep
        self.saving: int | None = None  # the step that may not be finished yet
        self.first = jax.process_index() == 0
        if self.first:
            self.folder.mkdir(parents=True, exist_ok=True)
            for path in self.folder.iterdir():
                if TEMPORARY in path.name or path.name.endswith(DELETED):
                    path.rmtree()
        self.checkpointer = ocp.AsyncCheckpointer(
            ocp.CompositeCheckpointHandler(
                params=ocp.StandardCheckpointHandler(),
                rest=ocp.StandardCheckpointHandler(),
                facts=ocp.JsonCheckpointHandler(),
            ),
            async_options=ocp.options.AsyncOptions(
                post_finalization_callback=self._seal
            ),
        )

    def latest(self) -> int | None:
        """The step of the newest finished checkpoint."""
        return next(finished(self.folder), None)

    def save(self, step: int, state: State, facts: Mapping[str, Any]) -> None:
        """Starts to save; the state may change as soon as this returns.

        Args:
          facts: plain values that a restart checks or goes on from.

        Raises:
          UserError: the one before could not be written.
        """
        self.wait()
        self.saving = step
        rest = {k: v for k, v in state._asdict().items() if k != "params"}
        with self._writing():
            self.checkpointer.save(
                self.folder / str(step),
                args=ocp.args.Composite(
                    params=ocp.args.StandardSave(state.params),
                    rest=ocp.args.StandardSave(rest),
                    facts=ocp.args.JsonSave(dict(facts)),
                ),
            )

    def check(self) -> None:
        """Deletes what is not kept, once the newest is finished; never waits.

        Raises:
          UserError: the newest could not be written.
        """
        with self._writing():
            self.checkpointer.check_for_errors()
        if self.first and checksums.exist(self.folder / str(self.saving)):
            self.saving = None
            for step in list(finished(self.folder))[self.keep :]:
                going = self.folder / f"{step}{DELETED}"  # no more, at one stroke
                (self.folder / str(step)).rename(going)
                going.rmtree()

    def wait(self) -> None:
        """Until the newest is finished.

        Raises:
          UserError: it could not be written.
        """
        with self._writing():
            self.checkpointer.wait_until_finished()
        self.check()

    def close(self) -> None:
        self.wait()
        self.checkpointer.close()

    def restore(self, abstract: State) -> Restored | None:
        """The newest checkpoint that is whole, laid out as `abstract` says.

        One that is damaged is named, set aside, and the one before it is read.

        Raises:
          UserError: it is of another model or optimizer, or all are damaged.
        """
        step = processes.from_first(self._choose() if self.first else -1)
        if step < 0:
            return None
        folder = self.folder / str(step)
        rest = {k: v for k, v in abstract._asdict().items() if k != "params"}
        saved = self.checkpointer.metadata(folder).item_metadata
        _compare(folder, saved["params"], abstract.params)
        _compare(folder, saved["rest"], rest)
        found = self.checkpointer.restore(
            folder,
            args=ocp.args.Composite(
                params=ocp.args.StandardRestore(abstract.params),
                rest=ocp.args.StandardRestore(rest),
                facts=ocp.args.JsonRestore(),
            ),
        )
        return Restored(step, State(params=found.params, **found.rest), found.facts)

    def _seal(self) -> None:
        """Writes the checksums when all files are there, before the final name is."""
        for path in self.folder.iterdir():
            if path.name.startswith(f"{self.saving}{TEMPORARY}"):
                checksums.write(path)

    def _choose(self) -> int:
        """The newest step that is whole; -1 where there is none at all."""
        ill = []
        for step in _steps(self.folder):
            folder = self.folder / str(step)
            why = checksums.damage(folder)
            if not why:
                return step
            ill.append(f"{folder} is damaged: {why}")
            print(f"warning: {ill[-1]}; it is set aside", file=sys.stderr, flush=True)
            aside = folder.with_name(folder.name + DAMAGED)
            if aside.exists():
                aside.rmtree()
            folder.rename(aside)
        ill += [str(p) for p in self.folder.iterdir() if p.name.endswith(DAMAGED)]
        if ill:
            raise UserError(
                f"{self.folder} has no checkpoint that can be read ({ill[0]}); delete "
                "this folder to train from the beginning"
            )
        return -1

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """Turns what Orbax raises about a disk into one line."""
        try:
            yield
        except Exception as error:
            if not (reason := _failing(error)):
                raise
            last = self.latest()
            kept = "none is saved" if last is None else f"step {last} is saved"
            raise UserError(
                f"{self.folder}: step {self.saving} could not be saved ({reason}); "
                f"{kept}; with room to write, the same command goes on from there"
            ) from error


def on_host(folder: epath.Path, *items: str) -> dict[str, Any]:
    """What a checkpoint holds; arrays as NumPy's, for its devices may not be here.

    Args:
      items: of "params", "rest" and "facts".
    """
    handler = ocp.CompositeCheckpointHandler(
        params=ocp.PyTreeCheckpointHandler(),
        rest=ocp.PyTreeCheckpointHandler(),
        facts=ocp.JsonCheckpointHandler(),
    )
    with ocp.Checkpointer(handler) as checkpointer:
        saved = checkpointer.metadata(folder).item_metadata
        array = ocp.RestoreArgs(restore_type=np.ndarray)
        args = {
            item: ocp.args.JsonRestore()
            if item == "facts"
            else ocp.args.PyTreeRestore(
                restore_args=jax.tree.map(lambda _: array, saved[item].tree)
            )
            for item in items
        }
        found = checkpointer.restore(folder, args=ocp.args.Composite(**args))
    return {item: found[item] for item in items}


def _failing(error: BaseException | None) -> str:
    """What the system said of a file that could not be written; "" if it did not."""
    while error is not None:
        if isinstance(error, OSError) and error.errno:
            return os.strerror(error.errno)
        for words in FAILINGS:
            if words in str(error):
                return words
        error = error.__cause__ or error.__context__
    return ""


def _steps(folder: epath.Path) -> list[int]:
    """Steps of the folders with a final name, newest first."""
    if not folder.exists():
        return []
    return sorted(
        (int(path.name) for path in folder.iterdir() if path.name.isdigit()),
        reverse=True,
    )


def finished(folder: epath.Path) -> Iterator[int]:
    """Steps of the finished checkpoints, newest first."""
    return (step for step in _steps(folder) if checksums.exist(folder / str(step)))


def _shapes(tree: Any) -> dict[str, tuple[int, ...]]:
    """The shape of each array of a tree, or of a checkpoint's metadata, by its path."""

    def has_shape(leaf: Any) -> bool:
        return hasattr(leaf, "shape")

    leaves = jax.tree_util.tree_flatten_with_path(tree, is_leaf=has_shape)[0]
    return {named(path): tuple(leaf.shape) for path, leaf in leaves if has_shape(leaf)}


def named(path: Any) -> str:
    """The path of a leaf in words, as "blocks/dense/kernel"."""
    return jax.tree_util.keystr(path, simple=True, separator="/")


def _compare(where: epath.Path, saved: Any, wanted: Any) -> None:
    saved, wanted = _shapes(saved), _shapes(wanted)
    for name in sorted(saved.keys() | wanted.keys()):
        have, want = saved.get(name), wanted.get(name)
        if have != want:
            raise UserError(
                f"{where} is a checkpoint of another model: {name} has shape {have} "
                f"there and {want} in this config; use its config or another workdir"
            )
