"""What all commands share: flags, exit codes and one-line error messages."""

import argparse
import errno
import io
import logging
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from launch import signals
from launch.other_names import flag_key
from launch.signals import INTERRUPTED, PREEMPTED
from research.contract.errors import (
    NonFiniteError,
    PreemptedError,
    UserError,
    missing_package,
    unknown,
)
from research.contract.fields import MAX_INT
from research.files.paths import user_path
from research.program.host_memory import keep_freed_memory

DONE, FAILED, MISTAKE, NON_FINITE = 0, 1, 2, 3
"""Exit codes. An exception without a code is a bug and keeps its traceback.

A backend restarts a run that was preempted (it was asked to stop, or another process
was lost) and, up to --retries times, one that failed.
"""

EXIT_CODES = {
    UserError: MISTAKE,
    NonFiniteError: NON_FINITE,
    PreemptedError: PREEMPTED,
}

NO_MEMORY = (
    "there is not enough memory; train.accumulate, model.remat, and smaller values of "
    "train.batch, data.length and model.width need less"
)

MACHINE_ERRORS = {
    errno.EACCES: "no permission",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "the file would be larger than this file system allows",
    errno.EEXIST: "this is a file, but a folder is needed",
    errno.EIO: "the disk cannot be read or written",
    errno.EISDIR: "this is a folder, but a file is needed",
    errno.ELOOP: "links that lead to each other",
    errno.ENAMETOOLONG: "the name is too long",
    errno.ENOSPC: "the disk is full",
    errno.ENOTDIR: "part of this path is a file, but a folder is needed",
    errno.EPERM: "no permission",
    errno.EROFS: "the file system is read-only",
}
"""Errors of the operating system that the user can fix."""

OTHER_NAMES = {
    "--data": ("--file", "--files", "--input", "--input_file", "--text", "--texts"),
    "--workdir": ("--model", "--run", "--checkpoint", "--output_dir"),
    "--to": ("--output", "--output_file", "--out"),
}
"""Flag -> its names in other programs."""

OWN_PACKAGES = ("experiments", "launch", "palimpsest", "research")


def whole(least: int, most: int = MAX_INT) -> Callable[[str], int]:
    """The type of a flag: an integer from `least` to `most`."""

    def parse(text: str) -> int:
        legal = f"a whole number from {least} to {most}"
        if most == MAX_INT:
            legal = f"a whole number of at least {least}"
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"must be {legal}, not {text}")
        return value

    return parse


def fraction(text: str, *, zero: bool = True) -> float:
    """The type of a flag: a number from 0 to 1, above 0 unless `zero`."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1 or not (value or zero):
        legal = "number from 0 to 1" if zero else "fraction above 0 and at most 1"
        raise argparse.ArgumentTypeError(f"must be a {legal}, not {text}")
    return value


def path(text: str) -> str:
    """The type of a flag: a path, see `user_path`."""
    if is_model(text):
        raise argparse.ArgumentTypeError(
            f"{text} is a model in Hugging Face's layout, not a file or folder; "
            f"a run may start from the model: --config.train.init_from={text}"
        )
    return path_or_model(text)


def path_or_model(text: str) -> str:
    """The type of a flag: a path, or hf:DIR, which is not changed."""
    try:
        return user_path(text)
    except UserError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def is_model(text: str) -> bool:
    """True for hf:DIR; hf:// is a bucket."""
    return text.startswith("hf:") and not text.startswith("hf://")


class Parser(argparse.ArgumentParser):
    """An argparse parser that also takes `--config.KEY=VALUE`.

    The overrides are returned as `args.overrides`, a dict of key -> text. A wrong flag
    raises UserError.
    """

    def __init__(self, description: str | None = None, *, overrides: bool = True):
        super().__init__(
            description=description,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        self._takes_overrides = overrides

    def add_path(
        self, *names: str, models: bool = False, **options: Any
    ) -> argparse.Action:
        """Adds a flag, or a positional argument, that is a path.

        Args:
          models: whether it may also be hf:DIR.
        """
        kind = path_or_model if models else path
        return self.add_argument(*names, type=kind, **options)

    def parse_args(self, args=None, namespace=None):
        arguments = list(sys.argv[1:] if args is None else args)
        for argument in arguments:
            try:
                argument.encode()
            except UnicodeEncodeError as error:
                raise UserError(f"{argument!a} is not text in UTF-8") from error
        # First, so that the VALUE of --config.KEY VALUE is not a positional argument.
        overrides, arguments = self._overrides(arguments)
        required = [a for a in self._actions if a.required and a.option_strings]
        try:
            for action in required:  # after unknown flags: one may be a misspelt one
                action.required = False
            namespace, rest = super().parse_known_args(arguments, namespace)
        finally:
            for action in required:
                action.required = True
        if rest:
            known = [flag for flag in self._option_string_actions if flag != "-h"]
            raise self._unknown(rest[0].partition("=")[0], known)
        namespace.overrides = overrides
        self._check_given(required, namespace)
        return namespace

    def _check_given(
        self, required: list[argparse.Action], namespace: argparse.Namespace
    ) -> None:
        values = {a.option_strings[0]: getattr(namespace, a.dest) for a in required}
        if missing := [flag for flag, value in values.items() if value is None]:
            self.error(f"the following arguments are required: {', '.join(missing)}")
        for flag, value in values.items():
            if isinstance(value, str) and not value.strip():
                raise UserError(f"{flag} has no value; write {flag}=VALUE")

    def error(self, message: str) -> NoReturn:
        raise UserError(message)

    def _overrides(self, arguments: list[str]) -> tuple[dict[str, str], list[str]]:
        """Config key -> text, and the other arguments."""
        overrides, others, remaining = {}, [], iter(arguments)
        for argument in remaining:
            flag, equals, value = argument.partition("=")
            if not (self._takes_overrides and flag.startswith("--config.")):
                others.append(argument)
                continue
            if not equals:
                value = next(remaining, None)
            if value is None:
                raise UserError(f"{flag} has no value; write {flag}=VALUE")
            overrides[flag.removeprefix("--config.")] = value
        return overrides, others

    def _unknown(self, flag: str, known: Sequence[str]) -> UserError:
        """The error for an unknown flag; a config key is --config.KEY."""
        ours = next((f for f, others in OTHER_NAMES.items() if flag in others), "")
        if ours in known:
            return UserError(f"unknown flag {flag!r}; did you mean {ours}?")
        key = flag_key(flag.lstrip("-"))
        if self._takes_overrides and key:
            return UserError(f"unknown flag {flag!r}; did you mean --config.{key}?")
        extra = ["--config.KEY"] * self._takes_overrides
        return unknown("flag", flag, [*known, *extra])


def main(
    run: Callable[[argparse.Namespace], int | None],
    parser: Parser,
    argv: list[str] | None = None,
    *,
    resumes: bool = False,
    leave: Callable[[int], NoReturn] = sys.exit,
) -> NoReturn:
    """Runs a command and exits by `leave` with the result of `run` (None: 0).

    Args:
      resumes: whether the same command, given again, continues from what was saved.

    An exception that `exit_code_for` knows is printed as one line and has its exit
    code. Any other exception is raised.
    """
    keep_freed_memory()
    signals.set_resumes(resumes)
    silence_orbax()
    for stream in (sys.stdout, sys.stderr):  # texts have any characters in any locale
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        code = run(parser.parse_args(argv))
        sys.stdout.flush()
    except BrokenPipeError:
        leave_stdout()
        code = DONE
    except (Exception, KeyboardInterrupt) as error:
        if not (known := exit_code_for(error)):
            raise
        code = print_exit(*known)
    leave(code or DONE)


def silence_orbax() -> None:
    """Suppresses logs of Orbax's threads when a disk is full; Orbax also raises it."""

    def ignore_closed_event_loop(unraisable: Any) -> None:
        if str(unraisable.exc_value) != "Event loop is closed":
            sys.__unraisablehook__(unraisable)

    sys.unraisablehook = ignore_closed_event_loop
    for name in ("absl", "asyncio"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


def print_unanswered(noun: str, answers: Sequence[Any]) -> None:
    """Prints how many answers are errors, and the first error.

    Raises:
      UserError: the first error, if all answers are errors.
    """
    errors = [(n, a) for n, a in enumerate(answers, 1) if isinstance(a, UserError)]
    if not errors:
        return
    number, error = errors[0]
    if len(errors) == len(answers):
        raise UserError(f"{noun} {number}: {error}") from error
    print(
        f"{len(errors)} of {len(answers)} {noun}s have no answer, {noun} {number} "
        f"since {error}",
        file=sys.stderr,
    )


def leave_stdout() -> None:
    """Stops all output, since its reader, such as `head`, has exited."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def print_exit(code: int, message: str) -> int:
    """Prints the message of an exit code to stderr, and returns the code."""
    signals.ignore_interrupts()
    is_error = code not in (PREEMPTED, INTERRUPTED)
    print(f"error: {message}" if is_error else message, file=sys.stderr, flush=True)
    return code


def exit_code_for(error: BaseException) -> tuple[int, str] | None:
    """The exit code of an error and its message in one line; None if it is a bug."""
    match error:
        case KeyboardInterrupt():
            return INTERRUPTED, signals.interrupted(str(error))
        case MemoryError():
            return MISTAKE, f"{NO_MEMORY} ({error or 'MemoryError'})"
        case RuntimeError() if "RESOURCE_EXHAUSTED" in str(error):
            return MISTAKE, f"{NO_MEMORY} ({str(error).splitlines()[0]})"
        case OSError() if error.errno in MACHINE_ERRORS:
            path = f"{error.filename}: " if error.filename else ""
            return MISTAKE, f"{path}{MACHINE_ERRORS[error.errno]}"
        case IsADirectoryError():  # of epath, which gives no number
            return MISTAKE, f"{error}; {MACHINE_ERRORS[errno.EISDIR]}"
        case ModuleNotFoundError() if error.name.partition(".")[0] not in OWN_PACKAGES:
            return MISTAKE, str(missing_package("this", error.name.partition(".")[0]))
        case FileNotFoundError() if os.path.islink(error.filename or ""):
            return MISTAKE, f"{error.filename}: a link to nothing; delete the link"
    for error_type, code in EXIT_CODES.items():
        if isinstance(error, error_type):
            return code, " ".join(str(error).split())
    return None
