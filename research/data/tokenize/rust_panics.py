"""Panics of the Rust library `tokenizers` as errors of one line."""

import contextlib
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator

from research.contract.errors import UserError

_STDERR = 2
_LOCK = threading.Lock()


@contextlib.contextmanager
def panics_as_errors(what: str) -> Iterator[None]:
    """Raises UserError instead of a panic, and drops what Rust prints about it.

    A regular expression of a normalizer panics if it needs too many steps. A panic is
    not an `Exception`. Standard error is held back until the block ends.

    Args:
      what: what fails, for the error.
    """
    with _LOCK, tempfile.TemporaryFile() as held:
        own = os.dup(_STDERR)
        os.dup2(held.fileno(), _STDERR)
        try:
            yield
        except BaseException as error:
            if type(error).__name__ != "PanicException":
                raise
            held.truncate(0)
            reason = " ".join(str(error).split())[:100]
            raise UserError(
                f"data.vocabulary: {what}; give another vocabulary, or mend its "
                f"normalizer or pre_tokenizer ({reason})"
            ) from None
        finally:
            os.dup2(own, _STDERR)
            held.seek(0)
            with open(own, "wb", buffering=0) as stderr:  # closes it, too
                shutil.copyfileobj(held, stderr)
