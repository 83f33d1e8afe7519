"""Configs: `base` holds every key, each experiment is a short diff of it."""
