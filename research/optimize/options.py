"""The config section `optimizer`: what all update rules and schedules share."""

import dataclasses
from dataclasses import dataclass
from typing import Any

from research.contract.fields import choice, fraction, free_text, number
from research.contract.parts import chosen, part
from research.optimize import pruning
from research.optimize.rules import OPTIMIZERS, Rule
from research.optimize.schedules import SCHEDULES


@dataclass(frozen=True)
class OptimizerOptions:
    """The keys that all optimizers share; each rule and schedule adds its own."""

    name: str = part("adamw", OPTIMIZERS)
    learning_rate: float = number(1e-3, least=0)  # the peak
    schedule: str = part("linear", SCHEDULES)  # how the rate decays
    warmup_steps: int = number(100, least=0)  # fewer than train.steps; if the given
    # train.steps leaves no room for the default, it is a tenth of them
    warmup: str = choice(
        "linear", ("linear", "from_zero", "slanted", "factor", "constant")
    )  # linear: up to the peak; from_zero: also from 0 with decay_from=warmup
    # (transformers); slanted: from final_fraction of the peak (ULMFiT); factor: linear,
    # times the decay (ELECTRA); constant: at the peak (T5)
    decay_from: str = choice("warmup", ("warmup", "start"))  # where the decay counts
    # from: the end of the warm-up, or step 0 (BERT)
    layer_decay: float = number(1.0, above=0, most=1)  # factor of the rate from one
    # layer to the layer below it; 1: none. Heads have the full rate, the last block
    # layer_decay^2 (ELECTRA), and a token table, even as the readout, the lowest rate
    layer_rates: list[float] = dataclasses.field(default_factory=list)  # factors of the
    # rates of embeddings, of each layer from the lowest on, and of heads, as in [0.5,
    # 0.1667, 0.3333, 1, 0.5] (ULMFiT's language model); []: those of layer_decay
    base_width: int = number(0, least=0)  # model.width at which initial values and
    # rates are as given; at other widths they are scaled so that the best rate is about
    # the same (muP, Yang et al. 2022); 0: no scaling
    unfreeze_every: int = number(0, least=0)  # steps after which the next layer is
    # unfrozen: first heads, then the last block, ..., embeddings (gradual unfreezing,
    # ULMFiT); 0: all train from the start
    clip_norm: float = number(1.0, least=0)  # global norm to which the gradient is
    # clipped; 0: none
    max_norm: float = number(0.0, least=0)  # limit of the norm of the weights of each
    # output of a head after each step (Kim 2014, section 2.1); 0: none
    frozen: str = free_text("")  # paths of parameters that do not change and get no
    # gradient, as in token,embeddings,stack/blocks/attention; network: all but heads
    prune: str = choice("none", pruning.METHODS)  # which weights of unfrozen kernels of
    # blocks become 0: small ones, permanently; those that training moves towards 0; or
    # those whose gate closes (l0, which reads none of the next four keys)
    prune_scope: str = choice("matrix", pruning.SCOPES)  # what prune_kept is a fraction
    # of: each matrix, or all together
    prune_kept: float = number(0.15, above=0, most=1)  # fraction of these weights that
    # remains at the end
    prune_begin: float = fraction(0.1)  # fraction of steps after which pruning begins
    prune_end: float = fraction(0.8)  # fraction of steps after which prune_kept remains
    prune_score_rate: float = number(1e-2, above=0)  # peak learning rate of scores and
    # gates, with the same schedule (for l0, 0.1 in the released code)
    prune_threshold: float = number(0.1, above=0, below=1)  # final threshold of the
    # sigmoids of scores for soft_movement, which ignores prune_kept and prune_scope
    prune_penalty: float = number(400.0, least=0)  # for soft_movement the final
    # coefficient of the mean of these sigmoids in the loss; for l0 that of the mean
    # probability that a gate is not 0, in all steps (125 in the released code). A
    # larger one prunes more
    ema_decay: float = number(0.0, least=0, below=1)  # decay per step, such as 0.999,
    # of a moving average of the parameters, which is evaluated and saved as the run's
    # parameters; 0: none
    average_from: float = fraction(1.0)  # fraction of steps after which parameters are
    # averaged with equal weights; the average is evaluated and saved likewise (ASGD,
    # Polyak and Juditsky 1992); 1: none
    rule: Rule = chosen("name")  # the part of research/optimize/rules
    decay: Any = chosen("schedule")  # the part of research/optimize/schedules

    def __post_init__(self) -> None:
        if not all(type(r) in (int, float) and r >= 0 for r in self.layer_rates):
            raise ValueError(
                "optimizer.layer_rates must have numbers of at least 0, as in [0.5, 1, "
                f"1]; got {[*self.layer_rates]!r}"
            )
        if self.layer_rates and self.layer_decay < 1:
            raise ValueError(
                "optimizer.layer_rates and optimizer.layer_decay both scale the rates "
                "of layers; set layer_rates to [] or layer_decay to 1"
            )
        if self.ema_decay and self.average_from < 1:
            raise ValueError(
                "optimizer.ema_decay and optimizer.average_from are two averages; set "
                "ema_decay to 0 or average_from to 1"
            )
        if self.prune != "none" and (self.ema_decay or self.average_from < 1):
            raise ValueError(
                "optimizer.prune leaves weights of 0, but averages with earlier steps "
                "are evaluated and saved, and have none; set ema_decay to 0 and "
                "average_from to 1"
            )
        if self.prune != "none" and self.unfreeze_every:
            raise ValueError(
                "optimizer.prune removes weights of all layers, but "
                "optimizer.unfreeze_every trains only the last layers at first; set "
                "one of them to its default, none or 0"
            )
