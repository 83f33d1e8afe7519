"""Errors in the code of a user's seqio task, in one line with file and line number."""

import contextlib
import re
import sysconfig
import traceback
from collections.abc import Iterator
from pathlib import Path

from research.contract.errors import UserError

OWN = str(Path(__file__).parents[2])
LIBRARIES = tuple(sysconfig.get_paths()[name] for name in ("purelib", "stdlib"))
FRAME = re.compile(r'File "([^"]+)", line (\d+)')
"""A frame in a message of TensorFlow, whose errors have the stack as text."""
CAUSE = re.compile(r"\s*\w+(Error|Exception): ")
"""A line of such a message that has the error of the user's code."""
MAX_REASON = 300


@contextlib.contextmanager
def name_line(where: str) -> Iterator[None]:
    """Turns errors in a task's code into one line, which begins with `where`.

    Raises:
      UserError: names the last line outside of libraries (ours is one), if there is
        one, else the last line.
    """
    try:
        yield
    except UserError:
        raise
    except (Exception, SystemExit) as error:
        if isinstance(error, SyntaxError):
            places = [(error.filename or "", error.lineno or 1)]
        else:
            places = [*_places(error)]
        users = [place for place in places if _is_users(place[0])]
        file, line = (users or places)[-1]
        lines = [each for each in str(error).splitlines() if each.strip()]
        causes = [each.strip() for each in lines if CAUSE.match(each)]
        reason = (causes or [" ".join(lines)])[-1][:MAX_REASON]
        if not causes:
            reason = f"{type(error).__name__}: {reason}".removesuffix(": ")
        raise UserError(f"{where}: {reason} ({file}:{line})") from error


def _places(error: BaseException) -> Iterator[tuple[str, int]]:
    """(file, line) of the frames of an error, and of those in its message."""
    for frame in traceback.extract_tb(error.__traceback__):
        yield frame.filename, frame.lineno or 1
    for file, line in FRAME.findall(str(error)):
        yield file, int(line)


def _is_users(file: str) -> bool:
    generated = "autograph" in file or not Path(file).is_file()
    return not generated and not file.startswith((OWN, *LIBRARIES))
