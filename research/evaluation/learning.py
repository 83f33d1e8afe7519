"""Warnings that a run has learnt too little for a comparison, from its metrics."""

from collections.abc import Mapping
from typing import Any

from research.metrics import all_metrics
from research.objectives import Objective

SMALL_GAIN = 0.05
"""A loss must be this much below the entropy of token frequencies to show learning."""

LITTLE_SENSE = 0.75
"""Fraction of that entropy above which a network writes nonsense. On novels, GPT of
width 64 repeated "the" at 0.88, and a few words at 0.76 (greedily)."""

FEW_TOKENS = 10_000
"""A run that has scored fewer tokens is a trial, which is not expected to learn."""


def knows_no_context(
    metrics: Mapping[str, float],
    objective: Objective,
    split: str,
    token_entropy: float,
) -> bool:
    """Whether all losses over tokens are about those of token frequencies.

    Args:
      metrics: "SPLIT/NAME" -> value; for parts NAME is as in "PART/mlm".
      token_entropy: of the training text's tokens, in nats; 0: unknown.
    """
    least = _least_token_loss(metrics, objective, split)
    return 0 < (1 - SMALL_GAIN) * token_entropy < least


def _least_token_loss(
    metrics: Mapping[str, float], objective: Objective, split: str
) -> float:
    """The smallest loss over tokens in a split; 0 if it has none."""
    losses = [
        value
        for name, value in metrics.items()
        if name.startswith(f"{split}/")
        and name.rpartition("/")[2] in objective.token_terms
    ]
    return min(losses, default=0.0)


def writing_note(result: Mapping[str, Any], objective: Objective) -> str:
    """A line to print when a run writes that has learnt little; "" for other runs.

    Args:
      result: the content of result.json.
    """
    entropy, split = result["token_entropy"], result["config"]["data"]["eval_split"]
    metrics = result["metrics"]
    losses = [_least_token_loss(metrics, objective, each) for each in (split, "train")]
    loss = next(filter(None, losses), 0.0)
    if not 0 < LITTLE_SENSE * entropy < loss:
        return ""
    gain = 100 * (1 - loss / entropy)
    below = f"{gain:.0f} % below" if gain >= 0.5 else "not below"
    return (
        f"this run has seen {result['tokens_seen']:,.0f} tokens, and its loss of "
        f"{loss:.2f} is {below} that of token frequencies alone, {entropy:.2f}: what "
        "it writes makes little sense yet"
    )


def predicts_one_class(metrics: Mapping[str, float]) -> bool:
    """Whether it predicts one class, or one tag for all words: see `Value.constant`.

    It is read from the test split if that was scored.
    """
    values = (value for metric in all_metrics() for value in metric.values)
    return any(
        metrics.get(f"test/{v.name}", metrics.get(f"valid/{v.name}")) == v.constant
        for v in values
        if v.constant is not None
    )


def learning_warnings(
    metrics: Mapping[str, float],
    objective: Objective,
    split: str,
    token_entropy: float,
) -> list[str]:
    """A line for each sign that a run learnt too little.

    Args:
      metrics, split, token_entropy: as in `knows_no_context`, with `tokens_scored` of
        training.
    """
    remedy = "; try more train.steps or another optimizer.learning_rate"
    found = []
    is_trial = metrics.get("tokens_scored", FEW_TOKENS) < FEW_TOKENS
    if not is_trial and knows_no_context(metrics, objective, split, token_entropy):
        found.append(
            f"the loss of {objective.name} is not {100 * SMALL_GAIN:.0f} % below the "
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
