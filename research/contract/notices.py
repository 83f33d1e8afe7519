"""Lines for the user that a process prints once."""

import functools
import sys


@functools.cache
def report(line: str) -> None:
    """Prints a line to standard error the first time that it is reported."""
    print(line, file=sys.stderr)
