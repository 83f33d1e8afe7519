"""Commands, one a module; their parts lie in the folders."""

import gc
import sys

from launch import signals

if sys.argv[0] == "-m":  # `python -m launch.NAME`, before it imports anything
    signals.install()
    gc.set_threshold(100_000)  # imports and traces make many objects and no garbage
