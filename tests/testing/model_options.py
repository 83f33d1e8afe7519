"""Options of a network: the defaults of experiments/base.py, with changes."""

from typing import Any

from experiments import base
from research import networks


def model_options(**changes: Any) -> networks.Options:
    """The model section at its defaults, but for `changes`."""
    return networks.Options(**(base.get_config().model.to_dict() | changes))
