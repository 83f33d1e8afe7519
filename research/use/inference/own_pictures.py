"""Opens a run that reads pictures with other pictures instead of its own."""

import contextlib
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from etils import epath

from research.config.identity import read_run_config
from research.contract.errors import UserError
from research.data.read.picture_sources import open_source
from research.data.read.pictures import Row
from research.data.store.pictures import has_other_pictures, open_store, write_rows
from research.files.paths import user_path
from research.use.inference.language_model import LanguageModel
from research.use.inference.open_run import open_run, run_objective
from research.use.inference.picture_vectors import picture_size, run_store


@contextlib.contextmanager
def open_with_pictures(
    workdir: str, source: Path, rows: list[Row], *, step: int = 0
) -> Iterator[tuple[LanguageModel, Path]]:
    """The model of a run, and the captions of rows, whose pictures it reads.

    Pictures have the size of the run's (objective.images), and boxes its classes. They
    are decoded once, into a folder that exists within the context.

    Args:
      source: a path that `open_source` opens.

    Raises:
      UserError: the run reads no pictures, or of these more than rows have; or a row,
        a picture or a box is wrong.
    """
    objective = objective_of(workdir)
    with tempfile.TemporaryDirectory(prefix="palimpsest-") as folder:
        file = write_own(Path(folder), source, rows, objective)
        yield open_run(workdir, step=step, images=folder), file


def objective_of(workdir: str | epath.Path) -> Any:
    """As `run_objective`, of a workdir."""
    folder = epath.Path(user_path(workdir))
    return run_objective(folder, read_run_config(folder))


def write_own(folder: Path, source: Path, rows: list[Row], objective: Any) -> Path:
    """Writes a store of own pictures for the objective of a run; returns its captions.

    Raises:
      UserError: as in `open_with_pictures`.
    """
    size, names = picture_size(objective), run_store(objective).class_names
    _check_regions(objective, rows)
    return write_rows(folder, open_source(source), rows, size=size, names=names)


def pictures_beside(captions: Path, workdir: str | epath.Path) -> str:
    """The folder of the pictures of captions, if a run has others; else "".

    Raises:
      UserError: these have another size than the run's.
    """
    objective, folder = objective_of(workdir), str(captions.parent)
    if not has_other_pictures(captions, getattr(objective, "images", "")):
        return ""
    size, found = picture_size(objective), open_store(folder).pixels.shape[2:0:-1]
    if size != found:
        raise UserError(
            f"pictures of {folder} have {found[0]} x {found[1]} pixels, those of the "
            f"run {size[0]} x {size[1]}; make them anew with palimpsest images --size"
        )
    return folder


def _check_regions(objective: Any, rows: Sequence[Row]) -> None:
    """Raises UserError: an objective reads boxes or features, and rows have none."""
    regions = getattr(objective, "regions", "")
    if regions == "features":
        raise UserError(
            "the run reads features, which pictures have only in a store: leave out "
            "--pictures, and give --data=STORE/valid.captioned of palimpsest images"
        )
    reads_boxes = regions and objective.reader.of_boxes
    if reads_boxes and not any(row.boxes for row in rows):
        raise UserError(
            f"objective.regions={regions} reads boxes, but no row from "
            f"{rows[0].where} on has any; give JSON lines with `boxes`"
        )
