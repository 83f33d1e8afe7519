"""The config: its sections and keys, sizes, identity and phases."""
