"""Commands: thin, no science. `main` turns a user's mistake into one line."""

import argparse
import errno
import os
import sys
from collections.abc import Callable
from typing import NoReturn

from research.errors import NonFiniteLossError, PreemptedError, UserError, unknown

DONE, FAILED, MISTAKE, NON_FINITE, PREEMPTED, INTERRUPTED = 0, 1, 2, 3, 75, 130
"""Exit codes; an exception that is nobody's mistake but ours keeps its traceback.

Of these an engine starts again what was preempted (asked to stop, or lost a peer) and,
a few times, what failed.
"""

CODES = {
    UserError: MISTAKE,
    NonFiniteLossError: NON_FINITE,
    PreemptedError: PREEMPTED,
}

OUTSIDE = {
    errno.EACCES: "no permission",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "a file may not grow that large here",
    errno.EEXIST: "this is a file, where a folder is needed",
    errno.EISDIR: "this is a folder, where a file is needed",
    errno.ENOSPC: "the disk is full",
    errno.ENOTDIR: "a part of this path is a file, where a folder is needed",
    errno.EPERM: "no permission",
    errno.EROFS: "the file system is read-only",
}
"""Errors of the machine that a person can mend."""


class Parser(argparse.ArgumentParser):
    """An argparse parser that also takes `--config.KEY=VALUE`, and errs in one line.

    The overrides arrive as `args.overrides`, key -> text.
    """

    def __init__(self, description: str | None = None, *, overrides: bool = True):
        super().__init__(
            description=description,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        self._takes_overrides = overrides

    def parse_args(self, args=None, namespace=None):
        namespace, rest = super().parse_known_args(args, namespace)
        namespace.overrides = self._overrides(rest)
        return namespace

    def error(self, message: str) -> NoReturn:
        raise UserError(message)

    def _overrides(self, rest: list[str]) -> dict[str, str]:
        known = [flag for flag in self._option_string_actions if flag != "-h"]
        overrides, words = {}, iter(rest)
        for word in words:
            flag, equals, value = word.partition("=")
            if not (self._takes_overrides and flag.startswith("--config.")):
                extra = ["--config.KEY"] * self._takes_overrides
                raise unknown("flag", flag, [*known, *extra])
            if not equals:
                value = next(words, None)
            if value is None:
                raise UserError(f"{flag} has no value; write {flag}=VALUE")
            overrides[flag.removeprefix("--config.")] = value
        return overrides


def main(
    run: Callable[[argparse.Namespace], int | None],
    parser: Parser,
    argv: list[str] | None = None,
) -> NoReturn:
    """Runs a command and exits: with 0 or what `run` returns, or as `verdict` says."""
    try:
        code = run(parser.parse_args(argv))
        sys.stdout.flush()
    except BrokenPipeError:  # the reader, `head` say, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = DONE
    except (Exception, KeyboardInterrupt) as error:
        if not (found := verdict(error)):
            raise
        code = say(*found)
    sys.exit(code or DONE)


def say(code: int, line: str) -> int:
    """Prints the line that goes with an exit code, and returns the code."""
    wrong = code not in (PREEMPTED, INTERRUPTED)
    print(f"error: {line}" if wrong else line, file=sys.stderr, flush=True)
    return code


def verdict(error: BaseException) -> tuple[int, str] | None:
    """The exit code and the one line of an error; None: it is a bug of ours."""
    match error:
        case KeyboardInterrupt():
            return INTERRUPTED, "interrupted; the same command goes on from here"
        case OSError() if error.errno in OUTSIDE:
            where = f"{error.filename}: " if error.filename else ""
            return MISTAKE, f"{where}{OUTSIDE[error.errno]}"
    for kind, code in CODES.items():
        if isinstance(error, kind):
            return code, " ".join(str(error).split())
    return None
