"""Signs in the metrics of a run that it learnt too little for a comparison."""

from collections.abc import Mapping

SMALL_GAIN = 0.05
"""A loss that is nearer than this to the entropy of token frequencies, which it should
be below, shows little learning."""

OTHER_LOSSES = ("cbow", "skipgram")
"""Objectives whose losses are not -log p of a token among all."""


def knows_no_context(
    metrics: Mapping[str, float], objective: str, split: str, token_entropy: float
) -> bool:
    """Whether a loss over tokens is about what frequencies of tokens alone give.

    Args:
      metrics: "SPLIT/NAME" -> value.
      objective: the config's objective.name.
      token_entropy: of the training text's tokens, in nats; 0: unknown.
    """
    term = {"electra": "generator"}.get(objective, objective)
    loss = metrics.get(f"{split}/{term}", 0.0)
    if objective in OTHER_LOSSES:
        return False
    return 0 < (1 - SMALL_GAIN) * token_entropy < loss


def predicts_one_class(metrics: Mapping[str, float]) -> bool:
    """Whether Matthews' correlation is 0, as for constant predictions."""
    return any(metrics.get(f"{split}/matthews") == 0 for split in ("valid", "test"))


def learning_warnings(
    metrics: Mapping[str, float], config: Mapping, token_entropy: float
) -> list[str]:
    """A line for each sign that a run learnt too little.

    Args:
      metrics, token_entropy: as of `knows_no_context`.
      config: the run's config.
    """
    split, objective = config["data"]["eval_split"], config["objective"]["name"]
    found = []
    if knows_no_context(metrics, objective, split, token_entropy):
        found.append(
            f"the loss of {objective} is not {100 * SMALL_GAIN:.0f} % below the "
            f"entropy of the training text's tokens, {token_entropy:.3f}: it has "
            "learnt little more than how often tokens occur"
        )
    if predicts_one_class(metrics):
        found.append(
            "Matthews' correlation is 0: it predicts one class alone, or by chance"
        )
    remedy = "; try more train.steps or another optimizer.learning_rate"
    return [each + remedy for each in found]
