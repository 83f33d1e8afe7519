"""Opens a run that reads pictures with other pictures instead of its own."""

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

from research import objectives
from research.config.identity import read_run_config
from research.data.read.picture_sources import open_source
from research.data.read.pictures import Row
from research.data.store.pictures import write_rows
from research.files.paths import user_path
from research.use.inference.language_model import LanguageModel
from research.use.inference.open_run import open_run
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
      UserError: the run reads no pictures, or a row, a picture or a box is wrong.
    """
    config = read_run_config(Path(user_path(workdir)))
    objective = objectives.make_objective(**config["objective"])
    size, names = picture_size(objective), run_store(objective).class_names
    with tempfile.TemporaryDirectory(prefix="palimpsest-") as folder:
        pictures = open_source(source)
        file = write_rows(Path(folder), pictures, rows, size=size, names=names)
        yield open_run(workdir, step=step, images=folder), file
