"""Rules of optax by their names, such as lion, adan or ademamix.

Each is optax's own function (optax or optax.contrib), whose docstring has its source;
the learning rate is that of the run. Rules whose steps depend on the rate itself
(prodigy, dog, schedule_free) are not included.
"""

import dataclasses
import inspect

import optax

from research.contract.errors import UserError
from research.contract.fields import choice, free_text
from research.optimize import rules
from research.optimize.rules.shared.weight_decay import WeightDecay

RULES = {
    **{
        name: getattr(optax, name)
        for name in ("adabelief", "adan", "lion", "nadam", "novograd", "radam", "yogi")
    },
    **{
        name: getattr(optax.contrib, name)
        for name in ("acprop", "ademamix", "adopt", "simplified_ademamix")
    },
}


@dataclasses.dataclass(frozen=True)
class Optimizer(WeightDecay, rules.Rule):
    """The rule without its own weight decay; the run's decoupled decay is added."""

    rule: str = choice("lion", tuple(RULES))
    arguments: str = free_text("")  # of the rule, as in b1=0.95,b2=0.98

    def transforms(self) -> list[optax.GradientTransformation]:
        function = RULES[self.rule]
        known = inspect.signature(function).parameters
        given = {name: 0.0 for name in ("weight_decay",) if name in known}
        fixed = {"learning_rate", "weight_decay", "mask", "mu_dtype"}
        legal = sorted({*known} - fixed)
        for item in filter(None, self.arguments.split(",")):
            name, _, text = item.partition("=")
            try:
                value = float(text)
            except ValueError:
                value = float("nan")
            if name not in legal or value != value:
                raise UserError(
                    f"optimizer.arguments must be numbers by name, as in b1=0.9, of "
                    f"{', '.join(legal)}; got {item!r}"
                )
            given[name] = value
        # optax multiplies by minus the rate, which the run does after this.
        return [function(learning_rate=-1.0, **given), self.add_decay()]
