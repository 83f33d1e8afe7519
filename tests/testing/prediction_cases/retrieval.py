"""Pictures of captions, and the reverse."""

from tests.testing.prediction_cases import Case, draw_ranks, mean_reciprocal, one_hot


def right_vectors(batch, vocab):
    vector = one_hot(batch["picture"], 40)
    found = {"image": vector, "text": vector, "picture": batch["picture"]}
    return found | {"weight": batch["pair_weight"]}


CASE = Case(
    "clip",
    {},
    right_vectors,
    draw_ranks,
    {"images": "random", "patch": 4},
    "pictures.captioned",
    score=mean_reciprocal,
    gold=[1.0, 1.0],
)
