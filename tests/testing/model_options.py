"""Options of a transformer: its defaults, with changes."""

from typing import Any

from experiments import base
from research.networks.transformer import Network


def model_options(**changes: Any) -> Network:
    """The keys of experiments/base.py, but for `changes`."""
    section = base.get_config().model.to_dict()
    section.pop("network")
    return Network(**section | changes)
