"""AdamW (Loshchilov and Hutter 2019): Adam with decoupled weight decay."""

import dataclasses

import optax

from research.optimize import rules
from research.optimize.rules.shared.adam_moments import AdamMoments
from research.optimize.rules.shared.weight_decay import WeightDecay


@dataclasses.dataclass(frozen=True)
class Optimizer(AdamMoments, WeightDecay, rules.Rule):
    step_is_rate = True
    takes_scale_rate = True

    def transforms(self) -> list[optax.GradientTransformation]:
        return [self.scale_by_adam(), self.add_decay()]
