"""Commands, one per module; the folders have what they share."""

import gc
import sys
from pathlib import Path

from launch import signals

# `python -m launch.NAME` or `palimpsest NAME`, before it imports anything.
if sys.argv[0] == "-m" or Path(sys.argv[0]).stem == "palimpsest":
    signals.install()
    gc.set_threshold(100_000)  # imports and traces make many objects and no garbage
