"""Guards of distillation: what is compared with the teacher, and where."""

# B batch, L length

from typing import Any

import jax.numpy as jnp
import numpy as np

from tests.fidelity.guards.networks import Small, by_path, small
from tests.fidelity.guards.registry import guard, phrase
from tests.fidelity.our_batches import batch_of
from tests.fidelity.table import System


def terms_of(own: Small, dropout: bool = False, **arrays: Any) -> dict[str, Any]:
    """The terms of the loss, with random parameters and other arrays in the batch."""
    batch = own.batch | arrays
    score = lambda net: own.objective.loss(net, batch, None)[0]  # noqa: E731
    return own.run(score, own.randomized(), dropout)


def padded(own: Small) -> np.ndarray:
    """[B, L]: the segments of the batch, of which row 0 ends after five positions."""
    segment = np.array(own.batch["segment"])
    segment[0, 5:] = 0
    return segment


@guard("drawing of masked tokens")
def drawing(system: System):
    batch, *_ = batch_of(system)
    count = {*batch["weight"].sum(axis=1).tolist()}
    return phrase({"of each row": len(count) == 1, "of a batch": len(count) > 1})


@guard("positions of soft and cosine")
def text_positions(system: System):
    own = small(system.name)
    segment = padded(own)
    terms = terms_of(own, segment=jnp.asarray(segment))
    equal = all(terms[n].weight == (segment > 0).sum() for n in ("soft", "cosine"))
    return phrase({"all but padding, masked or not": equal})


@guard("attention of padding")
def attention_of_padding(system: System):
    own = small(system.name)
    segment = padded(own)
    terms = terms_of(own, segment=jnp.asarray(segment))
    pairs = ((segment > 0).sum(axis=1) ** 2).sum()
    return phrase(
        {
            "left out": terms["attention"].weight == pairs / segment.shape[1],
            "counted": terms["attention"].weight == segment.size,
        }
    )


@guard("dropout of the teacher")
def teacher_dropout(system: System):
    """Without dropout of the student's own."""
    own = small(system.name).with_options(dropout=0.0)
    one, two = (terms_of(own, dropout) for dropout in (False, True))
    assert dict(own.objective.teacher_model)["dropout"] > 0
    same = all(one[name].total == two[name].total for name in one)
    return phrase({"none": same, "that of its training": not same})


@guard("projection of states")
def projection(system: System):
    params = by_path(small(system.name).params)
    own = {n.removeprefix("head_hidden/") for n in params if "head_hidden" in n}
    one = own == {"out/kernel", "out/bias"}
    return phrase({"one dense layer with a bias, for all states": one})


@guard("chosen tokens of a row")
def chosen_tokens(system: System):
    batch, *_ = batch_of(system)
    (count,) = {*batch["weight"][:, :-1].sum(axis=1).tolist()}
    return count


@guard("weight of a short row")
def weight_of_a_row(system: System):
    own = small(system.name)
    segment = padded(own)
    (term,) = terms_of(own, segment=jnp.asarray(segment)).values()
    return phrase(
        {
            "by its positions": term.weight == (segment > 0).sum(),
            "that of a full row": term.weight == len(segment),
        }
    )


@guard("masks of a row")
def masks(system: System):
    batch, *_ = batch_of(system)
    used = batch["weight"] > 0
    here = np.take_along_axis(batch["token"], batch["scored"], axis=1)
    return int((here != batch["target"])[used].sum())
