"""Ctrl-C ends a command with one line, wherever it comes and however often."""

import subprocess
import sys

import pytest

INSTALL = """
import gc, os, signal, time, weakref
from launch import signals
signal.signal(signal.SIGINT, signal.default_int_handler)  # may be ignored
signals.install()
signals.raise_interrupts()
"""
AGAIN = """
try:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(9)
except KeyboardInterrupt:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(9)
"""


IN_A_CALLBACK = """
def callback(*_):
    os.kill(os.getpid(), signal.SIGINT)
    gc.callbacks.clear()
{register}
try:
    gc.collect()
    time.sleep(9)
except KeyboardInterrupt:
    os.kill(os.getpid(), signal.SIGINT)
"""


@pytest.mark.parametrize(
    "code",
    [
        AGAIN,
        IN_A_CALLBACK.format(register="gc.callbacks.append(callback)"),
        IN_A_CALLBACK.format(register="weakref.finalize(type('', (), {})(), callback)"),
    ],
    ids=["again", "in the garbage collector's callback", "in a weak reference's"],
)
@pytest.mark.parametrize(
    "command, remedy",
    [
        ("", ""),  # during its imports
        ("signals.set_resumes(True)", "; the same command goes on from what is saved"),
        ("signals.set_resumes(False)", "; the same command begins anew"),
    ],
)
def test_an_interrupt_ends_the_process_with_one_line(code, command, remedy):
    done = subprocess.run(
        [sys.executable, "-c", f"{INSTALL}{command}\n{code}"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 130
    assert done.stderr == f"interrupted{remedy}\n"
