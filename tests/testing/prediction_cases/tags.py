"""Tags of the words of a text."""

from tests.testing.prediction_cases import Case

TAGS = ("O", "B-x", "I-x", "B-y")


def right_tags(batch, vocab):
    known = {"tag": batch["target"], "weight": batch["weight"]}
    return known | {"probability": 0.75 * batch["weight"]}


CASE = Case(
    "token_classification",
    {},
    right_tags,
    lambda rng, n: [rng.choice(TAGS, 6).tolist() for _ in range(n)],
    file="words.conll",
    labels=TAGS,
    constant=["O"] * 6,
)
