"""Files that are complete or absent, and checked when they are read."""
