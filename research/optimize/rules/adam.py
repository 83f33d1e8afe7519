"""Adam (Kingma and Ba 2015), without weight decay."""

import dataclasses

import optax

from research.optimize import rules
from research.optimize.rules.shared.adam_moments import AdamMoments


@dataclasses.dataclass(frozen=True)
class Optimizer(AdamMoments, rules.Rule):
    step_is_rate = True
    takes_scale_rate = True

    def transforms(self) -> list[optax.GradientTransformation]:
        return [self.scale_by_adam()]
