"""Schedules of the learning rate: how it decays after the warm-up.

Each module has a frozen dataclass `Schedule`. Its fields are its config keys; its
method `decay(shared, steps)` returns the rate as a function of the steps since the
decay's origin (`research.optimize.schedule`). `shared` has the keys of all schedules,
such as `learning_rate`, the peak; `steps` is the number of steps from the origin on.
"""

from research.contract.parts import Folder

SCHEDULES = Folder(
    "research.optimize.schedules", "Schedule", named_by="optimizer.schedule"
)
