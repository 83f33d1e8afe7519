"""The optimizer's section of a config, and the parts that it may choose."""

from ml_collections import ConfigDict

from research.config import sections


def section(**changes):
    """The section at its defaults but for these keys."""
    values = sections.section_defaults("optimizer", changes)
    assert changes.keys() <= values.keys()
    return ConfigDict(values)
