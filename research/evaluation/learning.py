"""Signs in the metrics of a run that it learnt too little for a comparison."""

from collections.abc import Mapping

SMALL_GAIN = 0.05
"""A loss that is nearer than this to the entropy of token frequencies, which it should
be below, shows little learning."""

FEW_TOKENS = 10_000
"""A run that has scored fewer is a trial, which nobody expects to have learnt."""

TOKEN_LOSSES = ("bart", "clm", "dae", "diffusion", "fim", "generator", "lm", "mass")
TOKEN_LOSSES += ("mlm", "plm", "tlm", "unilm", "xae")
"""Terms that are -log p of a token of the text among all tokens."""

OF_TASKS = ("sequence_classification",)
"""Objectives in which such a term stands beside a task's."""


def token_losses(metrics: Mapping[str, float]) -> dict[str, float]:
    """The metrics that are such terms, also as terms of parts, as in "PART/mlm".

    Of ELECTRA they are those of generators: most tokens that its discriminator predicts
    stand in its input.
    """
    named = {name: name.rpartition("/")[2] for name in metrics}
    generators = "generator" in named.values()
    chosen = ("generator",) if generators else TOKEN_LOSSES
    return {name: metrics[name] for name, term in named.items() if term in chosen}


def knows_no_context(
    metrics: Mapping[str, float], objective: str, split: str, token_entropy: float
) -> bool:
    """Whether all losses over tokens are about what frequencies of tokens alone give.

    Args:
      metrics: "SPLIT/NAME" -> value.
      objective: the config's objective.name.
      token_entropy: of the training text's tokens, in nats; 0: unknown.
    """
    own = {name: v for name, v in metrics.items() if name.startswith(f"{split}/")}
    losses = {} if objective in OF_TASKS else token_losses(own)
    least = min(losses.values(), default=0.0)
    return 0 < (1 - SMALL_GAIN) * token_entropy < least


def predicts_one_class(metrics: Mapping[str, float]) -> bool:
    """Whether Matthews' correlation is 0: one class, or one tag of all words."""
    return any(metrics.get(f"{split}/matthews") == 0 for split in ("valid", "test"))


def learning_warnings(
    metrics: Mapping[str, float], config: Mapping, token_entropy: float
) -> list[str]:
    """A line for each sign that a run learnt too little.

    Args:
      metrics, token_entropy: as of `knows_no_context`; `tokens_scored` of training.
      config: the run's config.
    """
    split, objective = config["data"]["eval_split"], config["objective"]["name"]
    remedy = "; try more train.steps or another optimizer.learning_rate"
    found = []
    is_trial = metrics.get("tokens_scored", FEW_TOKENS) < FEW_TOKENS
    if not is_trial and knows_no_context(metrics, objective, split, token_entropy):
        found.append(
            f"the loss of {objective} is not {100 * SMALL_GAIN:.0f} % below the "
            f"entropy of the training text's tokens, {token_entropy:.3f}: it has "
            "learnt little more than how often tokens occur, unless it scores rare "
            f"tokens more often{remedy} (docs/howto/plateau.md)"
        )
    if predicts_one_class(metrics):
        found.append(
            "Matthews' correlation is 0: it predicts one class (of words: one tag) "
            f"alone, or by chance{remedy} (docs/howto/one_class.md)"
        )
    return found
