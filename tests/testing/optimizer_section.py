"""The optimizer's section of a config, and the values that are legal there."""

from experiments import base
from research.run import sections


def legal_values(key):
    """The values that are declared for a key of the section."""
    return sections.Optimizer.__dataclass_fields__[key].metadata["values"]


def section(**changes):
    """The section at its defaults but for these keys."""
    config = base.get_config().optimizer
    config.update(changes)
    return config
