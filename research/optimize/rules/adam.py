"""Adam (Kingma and Ba 2015), without weight decay."""

import dataclasses

import optax

from research.optimize.rules.shared.adam_moments import AdamMoments


@dataclasses.dataclass(frozen=True)
class Optimizer(AdamMoments):
    def transforms(self) -> list[optax.GradientTransformation]:
        return [self.scale_by_adam()]
