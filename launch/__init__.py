"""Commands, one a module; their parts lie in the folders."""

import sys

from launch import signals

if sys.argv[0] == "-m":  # `python -m launch.NAME`, before it imports anything
    signals.install()
