"""A network that records the calls of its stacks: their inputs and their outputs."""

# B batch, L positions of a group, P states of a call, D width

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from research import networks
from research.contract.batch import input_group
from tests.testing import fast_key
from tests.testing.example_batches import keys
from tests.testing.objective_cases import (
    make_constants,
    make_example,
    make_network,
    vocab_of,
)

LENGTH = 36
KEY = fast_key.key(0)
VOCAB_SIZE = 512
"""Large enough that each position of each call can have a token of its own."""


METHODS = ("states", "outputs", "encode", "features", "layers", "future_outputs")
"""The methods of a bound network that are recorded."""


@partial(
    jax.tree_util.register_dataclass,
    data_fields=("group", "scored", "out"),
    meta_fields=("path", "method", "num_keys", "reads_tokens"),
)
@dataclass(frozen=True)
class Call:
    """One call of a stack by a loss."""

    path: tuple[str, ...]  # attributes that lead to the part: (), ("generator",), ...
    method: str  # states | outputs | encode | features | layers | future_outputs
    num_keys: int | None  # only the first so many positions serve as keys
    group: dict[str, Any]  # of a network input, [B, L] each
    scored: Any  # [B, P], or None
    out: Any  # [B, P, D]
    reads_tokens: bool = True  # of its group; False: states of earlier calls alone


class InstrumentedNetwork:
    """A network that appends the calls of its stacks to a list.

    Args:
      distinct_tokens: replace all tokens, so that each position of each call has a
        token of its own.
      added: arrays that are added to the output of each call, to differentiate by them.
      sight: a factor of the output of each call: a network of sight 0 sees no input.
    """

    def __init__(self, net, calls, *, path=(), **options):
        self.net, self.calls, self.path, self.settings = net, calls, path, options
        self.distinct_tokens = options.get("distinct_tokens", False)
        self.added, self.sight = options.get("added"), options.get("sight")

    def __getattr__(self, name):
        member = getattr(self.net, name)
        if name in METHODS:
            return lambda group, *args, **kw: self.call(name, member, group, args, kw)
        if hasattr(member, "states"):
            path = (*self.path, name)
            return InstrumentedNetwork(member, self.calls, path=path, **self.settings)
        return member

    def call(self, name, member, group, args, kw):
        group = input_group(group)
        if self.distinct_tokens:
            first = sum(call.group["token"].shape[1] for call in self.calls)
            tokens = first + jnp.arange(group["token"].shape[1], dtype=jnp.int32)
            group["token"] = jnp.broadcast_to(tokens[None], group["token"].shape)
        result = member(group, *args, **kw)
        is_array = name in ("states", "features")
        out = result if is_array else result.states
        if name == "layers":
            out = out[-1]
        if self.added:
            out = out + self.added[len(self.calls)]
        if self.sight is not None:
            out = out * self.sight.astype(out.dtype)
        scored, num_keys = kw.get("scored"), kw.get("num_keys")
        call = Call(self.path, name, num_keys, group, scored, out)
        if name == "future_outputs":
            call = replace(call, reads_tokens=self.net.future_tokens)
        self.calls.append(call)
        if is_array:
            return out
        if name == "layers":
            out = jnp.concatenate([result.states[:-1], out[None]])
        return result._replace(states=out)


def make_case(name, fields, num_raw, seeds=(0,)):
    """An objective, its network, random parameters, and a batch for each seed."""
    objective, net = make_network(name, fields, tie_embeddings=False, scan_unroll=1)
    vocab = vocab_of(objective)._replace(size=VOCAB_SIZE)
    net = net.clone(size=vocab.size)
    constants, batches = make_constants(objective, vocab), []
    for seed in seeds:
        text = make_example(objective, LENGTH, num_raw, seed=seed)
        text = text._replace(label=np.maximum(text.label, 0))
        batches.append(corrupt(objective, text) | constants)

    def init(batch):
        score = lambda net: objective.loss(net, batch | {"carry": None}, KEY)  # noqa: E731
        (_, carry), params = networks.init_with_output(net, score, KEY)
        return carry, networks.unbox(params)

    rng = np.random.default_rng(0)
    carry, shapes = jax.eval_shape(init, on_device(batches[0]))
    values = lambda leaf: rng.normal(size=leaf.shape).astype(np.float32) / 5  # noqa: E731
    params = jax.tree.map(values, shapes)
    empty = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), carry)
    batches = [batch | {"carry": empty} for batch in batches]
    return objective, net, params, batches


def corrupt(objective, text) -> dict:
    """The batch that an objective makes of a text."""
    count = len(text.length)
    batch = objective.corrupt(text, keys(count), vocab_of(objective), LENGTH)
    return batch | {"example": np.arange(count, dtype=np.int32)}


def on_device(batch) -> dict:
    """The batch as JAX arrays."""
    return jax.tree.map(jnp.asarray, batch)


def record_calls(objective, net, params, batch, **options) -> tuple[dict, list[Call]]:
    """The terms of a loss, and the calls it made.

    Args:
      options: of `InstrumentedNetwork`.
    """
    calls: list[Call] = []

    def score(net):
        return objective.loss(InstrumentedNetwork(net, calls, **options), batch, KEY)[0]

    return networks.apply(net, params, score), calls


def target_weights(batch) -> dict[str, tuple[str, ...]]:
    """Names of the targets' weights -> names of the arrays of positions scored."""
    found = {}
    for name in batch:
        prefix = name.removesuffix("weight")
        if prefix + "target" in batch and prefix != name:
            arrays = (prefix + array for array in ("scored", "left", "right"))
            found[name] = tuple(array for array in arrays if array in batch)
    return found


def token_tables(params) -> dict[tuple, Any]:
    """The token embeddings, by path."""
    leaves = jax.tree_util.tree_leaves_with_path(params)
    named = {tuple(key.key for key in path): leaf for path, leaf in leaves}
    return {
        path: leaf
        for path, leaf in named.items()
        if path[-2:-1] in (("token",), ("decoder_token",))
        and path[-1] in ("embedding", "difference")  # from a table without gradient
    }


def with_token_tables(params, tables):
    """The parameters with these token embeddings in place of their own."""
    for path, leaf in tables.items():
        params = _with_leaf(params, path, leaf)
    return params


def _with_leaf(params, path, leaf):
    name, *rest = path
    inner = _with_leaf(params[name], rest, leaf) if rest else leaf
    return {**params, name: inner}
