"""Commands, each run as `palimpsest NAME`."""
