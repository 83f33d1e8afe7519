"""Runs a command in this process, and judges how it ended."""

import contextlib
import io
import re
import signal
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from types import ModuleType
from typing import Any, NamedTuple, NoReturn
from unittest import mock

from launch import cli

LIMIT_S, IDLE_LIMIT_S = 60, 600
"""Seconds of CPU time, and of any time but that in which it is stopped, after which a
command hangs: on a busy machine it may get little of the CPU."""

EXIT_CODES = (cli.DONE, cli.MISTAKE)


class Reached(BaseException):
    """The command has come to what takes long: it has accepted all it was given."""


class Hang(BaseException):
    """The command has run for too long."""


class Exit(BaseException):
    """A command exits with a code."""


class Outcome(NamedTuple):
    """How a command ended."""

    code: int | None  # None: it would have gone on with what takes long
    output: str
    error: str  # stderr
    traceback: str = ""  # of an exception that is no exit


def stop_here(*args: Any, **kwargs: Any) -> NoReturn:
    """Stands for a function that takes long."""
    raise Reached


@contextlib.contextmanager
def time_limit() -> Iterator[None]:
    """Raises Hang in the block after LIMIT_S of CPU time, or IDLE_LIMIT_S of waiting.

    It counts ticks of a timer, which a process that is stopped does not get.
    """
    ticks, began = 0, time.process_time()

    def tick(*_: Any) -> None:
        nonlocal ticks
        ticks += 1
        if ticks >= IDLE_LIMIT_S or time.process_time() - began >= LIMIT_S:
            raise Hang

    old = signal.signal(signal.SIGALRM, tick)
    signal.setitimer(signal.ITIMER_REAL, 1, 1)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)


def run(module: ModuleType, argv: list[str], replaced: Iterable[Any] = ()) -> Outcome:
    """Runs a command of `launch`.

    Args:
      replaced: patches, such as `mock.patch(name, stop_here)`.
    """
    return run_function(
        lambda leave: cli.main(module.run, module.parser(), argv, leave=leave), replaced
    )


def run_function(
    function: Callable[[Callable[[int], NoReturn]], Any], replaced: Iterable[Any] = ()
) -> Outcome:
    """Runs a function that exits by the function it is given."""

    def leave(code: int) -> NoReturn:
        raise Exit(code)

    output, error, code, trace = io.StringIO(), io.StringIO(), None, ""
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.redirect_stdout(output))
        stack.enter_context(contextlib.redirect_stderr(error))
        stack.enter_context(mock.patch.dict("os.environ"))
        for patch in replaced:
            stack.enter_context(patch)
        try:
            with time_limit():
                function(leave)
        except Reached:
            pass
        except Exit as exited:
            (code,) = exited.args
        except Hang:
            trace = f"hang: {traceback.format_exc()}"
        except (Exception, SystemExit):
            trace = traceback.format_exc()
    return Outcome(code, output.getvalue(), error.getvalue(), trace)


def complaint(outcome: Outcome, names: Iterable[str]) -> str:
    """What is wrong with the way in which a command ended; "" if nothing is.

    Args:
      names: of keys, flags or files: the line of an error has one of them.
    """
    if outcome.traceback:
        return outcome.traceback
    if outcome.code in (None, cli.DONE):
        return ""
    if outcome.code not in EXIT_CODES:
        return f"exit code {outcome.code}: {outcome.error}"
    lines = [line for line in outcome.error.splitlines() if line.startswith("error: ")]
    if len(lines) != 1 or not outcome.error.endswith(lines[0] + "\n"):
        return f"the error is not one line: {outcome.error!r}"
    if not any(re.search(rf"(?<!\w){re.escape(n)}(?!\w)", lines[0]) for n in names):
        return f"the error names none of {sorted(names)}: {lines[0]!r}"
    return ""
