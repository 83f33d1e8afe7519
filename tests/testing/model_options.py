"""Options of a network: the defaults of experiments/base.py, with changes."""

from typing import Any

from experiments import base
from research import models


def model_options(**changes: Any) -> models.Options:
    """The model section at its defaults, but for `changes`."""
    return models.Options(**(base.get_config().model.to_dict() | changes))
