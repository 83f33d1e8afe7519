"""A network that is watched: which stacks a loss calls, on what, with what outcome."""

# B batch, L places of a group, P states of a call, D width

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from research import models
from research.batch import INPUT_ARRAYS
from tests.testing.example_batches import keys
from tests.testing.objective_cases import (
    VOCAB,
    make_example,
    make_network,
    zero_carry,
)

LENGTH = 36
KEY = jax.random.key(0)
PLACES = 512
"""Tokens of the vocabulary here, so that each place of every call reads its own."""


@partial(
    jax.tree_util.register_dataclass,
    data_fields=("group", "scored", "out"),
    meta_fields=("path", "method", "keys"),
)
@dataclass(frozen=True)
class Call:
    """One use of a stack by a loss."""

    path: tuple[str, ...]  # the network's part: (), ("generator",), ...
    method: str  # states | encode
    keys: int | None  # only the first so many places serve as keys
    group: dict[str, Any]  # the six arrays, each [B, L]
    scored: Any  # [B, P], or None
    out: Any  # [B, P, D]


class Watched:
    """A network that keeps the calls of its stacks, in order.

    Args:
      own: each place of every call reads a token that no other place reads.
      nudges: what is added to the outcome of each call, to differentiate by it.
    """

    def __init__(self, net, calls, *, own=False, nudges=None, path=()):
        self.net, self.calls, self.path = net, calls, path
        self.own, self.nudges = own, nudges

    def __getattr__(self, name):
        member = getattr(self.net, name)
        if name in ("states", "encode"):
            return lambda group, *args, **kw: self.call(name, member, group, args, kw)
        if hasattr(member, "states"):
            return Watched(
                member,
                self.calls,
                own=self.own,
                nudges=self.nudges,
                path=(*self.path, name),
            )
        return member

    def call(self, name, member, group, args, kw):
        group = {array: group[array] for array in INPUT_ARRAYS}
        if self.own:
            first = sum(call.group["token"].shape[1] for call in self.calls)
            tokens = first + jnp.arange(group["token"].shape[1], dtype=jnp.int32)
            group["token"] = jnp.broadcast_to(tokens[None], group["token"].shape)
        result = member(group, *args, **kw)
        encoded = name == "encode"
        pair = not encoded and isinstance(result, tuple)
        out = result.states if encoded else result[0] if pair else result
        if self.nudges:
            out = out + self.nudges[len(self.calls)]
        scored, keys = kw.get("scored"), kw.get("keys")
        self.calls.append(Call(self.path, name, keys, group, scored, out))
        if encoded:
            return result._replace(states=out)
        return (out, *result[1:]) if pair else out


def setting(name, fields, num_raw, seeds=(0,)):
    """An objective, its network, batches of texts, and parameters of any values."""
    wide = VOCAB._replace(size=PLACES)
    objective, net = make_network(name, fields, tie_embeddings=False)
    net = net.clone(size=wide.size)
    batches = []
    for seed in seeds:
        text = make_example(objective, LENGTH, num_raw, seed=seed)
        text = text._replace(label=np.maximum(text.label, 0))
        batches.append(corrupt(objective, text))

    def init(batch):
        score = lambda net: objective.loss(net, batch | {"carry": None}, KEY)  # noqa: E731
        return models.init(net, score, KEY)

    rng = np.random.default_rng(0)
    shapes = models.unbox(jax.eval_shape(init, on_device(batches[0])))
    values = lambda leaf: rng.normal(size=leaf.shape).astype(np.float32) / 5  # noqa: E731
    params = jax.tree.map(values, shapes)

    def memory(batch):
        return zero_carry(objective, net, params, batch, KEY)

    empty = jax.tree.map(
        lambda leaf: jnp.zeros(leaf.shape, leaf.dtype),
        jax.eval_shape(memory, on_device(batches[0])),
    )
    batches = [batch | {"carry": empty} for batch in batches]
    return objective, net, params, batches


def corrupt(objective, text) -> dict:
    count = len(text.length)
    batch = objective.corrupt(text, keys(count), VOCAB, LENGTH)
    return batch | {"example": np.arange(count, dtype=np.int32)}


def on_device(batch) -> dict:
    return jax.tree.map(jnp.asarray, batch)


def watch(objective, net, params, batch, **how) -> tuple[dict, list[Call]]:
    """The terms of a loss, and the calls it made."""
    calls: list[Call] = []

    def score(net):
        return objective.loss(Watched(net, calls, **how), batch, KEY)[0]

    return models.apply(net, params, score), calls


def tables(params) -> dict[tuple, Any]:
    """The tables of tokens that are read, by path."""
    leaves = jax.tree_util.tree_leaves_with_path(params)
    named = {tuple(key.key for key in path): leaf for path, leaf in leaves}
    return {
        path: leaf for path, leaf in named.items() if path[-2:] == ("token", "rows")
    }


def with_tables(params, found):
    """Other parameters, with these tables."""
    for path, leaf in found.items():
        params = _with(params, path, leaf)
    return params


def _with(params, path, leaf):
    name, *rest = path
    inner = _with(params[name], rest, leaf) if rest else leaf
    return {**params, name: inner}
