"""Optimizers: one file each; schedules/ has the decays of the learning rate.

Each module has a frozen dataclass `Optimizer(rules.Rule)`. What all share is added by
`research.optimize.optimizer`: clipping before the rule, the learning rate and its
factors after it.
"""

import abc
from typing import TYPE_CHECKING, ClassVar

from research.contract.parts import Folder

if TYPE_CHECKING:
    import optax

OPTIMIZERS = Folder("research.optimize.rules", "Optimizer", named_by="optimizer.name")


class Rule(abc.ABC):
    """The base of all optimizers, whose fields are their config keys."""

    step_is_rate: ClassVar[bool] = False
    """Whether an update has the size of the learning rate, whatever the gradient's, so
    that optimizer.base_width can scale it."""

    takes_scale_rate: ClassVar[bool] = False
    """Whether a sweep's scale sets its learning rate; if not, its experiment does."""

    @abc.abstractmethod
    def transforms(self) -> "list[optax.GradientTransformation]":
        """Transformations of gradients to updates, in order, without the rate."""
