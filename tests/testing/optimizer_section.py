"""The optimizer's section of a config, and the parts that it may choose."""

from research.config import sections
from research.contract.parts import make_section
from research.optimize.options import OptimizerOptions


def section(**changes):
    """The section at its defaults but for these keys."""
    values = sections.section_defaults("optimizer", changes)
    assert changes.keys() <= values.keys()
    return make_section(OptimizerOptions, values, "optimizer.")
