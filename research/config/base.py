"""A config with all keys, at a given size; experiments are diffs of it.

Each key is declared in research/config/sections.py, or with the part that reads it.
"""

import dataclasses

from ml_collections import ConfigDict

from research.config import sections

SIZES = {
    "tiny": {
        "data.length": 64,
        "data.vocabulary_size": 1024,
        "model.layers": 2,
        "model.width": 64,
        "model.heads": 2,
        "model.feedforward": 256,
        "optimizer.warmup_steps": 4,
        "train.steps": 20,
        "train.batch": 8,
        "train.log_every": 5,
    },
    "small": {},
    "base": {
        "data.length": 512,
        "data.vocabulary_size": 32_000,
        "model.layers": 12,
        "model.width": 768,
        "model.heads": 12,
        "model.feedforward": 3072,
        "model.dtype": "bfloat16",
        "model.scan_unroll": 1,
        "train.batch": 256,
    },
    "large": {
        "data.length": 512,
        "data.vocabulary_size": 32_000,
        "model.layers": 24,
        "model.width": 1024,
        "model.heads": 16,
        "model.feedforward": 4096,
        "model.dtype": "bfloat16",
        "model.remat": "dots",
        "model.scan_unroll": 1,
        "train.batch": 256,
    },
}
"""Size -> keys that it changes: seconds on a CPU, minutes on a CPU, as published."""

PUBLISHED = ("base", "large")
"""Sizes at which an experiment keeps the paper's own budget."""


def get_config(size: str = "small") -> ConfigDict:
    """All keys at the given size."""
    config = every_key()
    config.update_from_flattened_dict(SIZES[size])
    return config


def every_key() -> ConfigDict:
    """All keys with their defaults; `objective` gets its own from its module."""
    config = ConfigDict(dataclasses.asdict(sections.RunSection()))
    for name in sections.SECTIONS.keys() - {"", "objective"}:
        config[name] = ConfigDict(sections.section_defaults(name, {}))
    config.objective = ConfigDict(dataclasses.asdict(sections.ObjectiveSection()))
    return config
