"""Ctrl-C again, while a command closes its files after the first, ends it at once."""

import subprocess
import sys

CODE = """
import os, signal, time
from launch import signals
signal.signal(signal.SIGINT, signal.default_int_handler)  # may be ignored
signals.install()
signals.raise_interrupts()
try:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(9)
except KeyboardInterrupt:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(9)
"""


def test_a_second_interrupt_ends_the_process_with_one_line():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True)
    assert done.returncode == 130
    assert done.stderr == "interrupted; the same command continues from here\n"
