"""Optimizers, one file each; schedules/ has the decays of the learning rate.

Each module has a frozen dataclass `Optimizer`. Its fields are its config keys; its
method `transforms()` returns the optax transformations that make updates of gradients,
one after the other. `research.optimize.optimizer` adds what all optimizers share:
clipping before them, the learning rate and its factors after them.
"""

from research.contract.parts import Folder

OPTIMIZERS = Folder("research.optimize.rules", "Optimizer")
