"""Guards of networks: layers and initial values, in a small network of each system."""

# B batch, L length, N states, D width, E embedding width, V rows of the token table

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from research import networks, objectives
from research.contract.batch import input_group
from research.networks.transformer.electra import generator_options
from research.networks.transformer.positions.t5 import relative_bucket
from tests.fidelity import table
from tests.fidelity.guards.registry import guard, phrase
from tests.fidelity.our_batches import VOCAB, full_rows
from tests.fidelity.table import System
from tests.testing import compiled_apply, fast_key
from tests.testing.example_batches import keys
from tests.testing.objective_cases import make_constants

LENGTH, WIDTH, EMBEDDING_WIDTH = 32, 128, 64
SMALL_KEYS = ("layers", "width", "heads", "feedforward", "dtype", "remat")
"""Keys of `model` by which a network here is smaller than its system's."""
GELU = {"gelu": False, "gelu_tanh": True}
"""Activation -> whether it is the approximation by tanh."""


@dataclasses.dataclass
class Small:
    """A small network of a system, unbound, with its initial parameters by path."""

    objective: Any
    options: Any
    network: Any
    params: dict
    batch: dict

    def randomized(self) -> dict:
        """Parameters none of which is at a special value, such as a bias of 0."""
        rng = np.random.default_rng(0)
        draw = lambda leaf: rng.normal(size=leaf.shape).astype(np.float32) / 4  # noqa: E731
        return jax.tree.map(draw, self.params)

    def run(self, fn: Any, params: dict | None = None, dropout: bool = False) -> Any:
        """`fn(net)`; with dropout at the rates of the options if asked."""
        key = fast_key.key(1) if dropout else None
        return compiled_apply.apply(self.network, params or self.params, fn, key)

    def with_options(self, **changes: Any) -> "Small":
        """The same parameters under other options."""
        options = dataclasses.replace(self.options, **changes)
        network = networks.build(options, self.objective.needs(VOCAB), VOCAB)
        return dataclasses.replace(self, options=options, network=network)


@functools.cache
def small(name: str, size: str = "") -> Small:
    """Of the named system, at its first published size unless given."""
    system = table.load(name)
    config = system.config(size or system.sizes[0])
    model = config.model.to_dict() | {"layers": 2, "width": WIDTH, "heads": 2}
    model |= {"feedforward": 4 * WIDTH, "dtype": "float32", "remat": "none"}
    model["embedding_width"] = EMBEDDING_WIDTH if model["embedding_width"] else 0
    model["cutoffs"] = [100, 200] if model["cutoffs"] else []
    fields = config.objective.to_dict()
    if "teacher_model" in fields:
        fields["teacher_model"] |= {name: model[name] for name in SMALL_KEYS}
        fields["layer_map"] = fields["layer_map"] and (-1, 1)
        fields["relation_heads"] = fields["relation_heads"] and 4
    objective = objectives.make_objective(**fields)
    batch = objective.corrupt(full_rows(objective, LENGTH, 4), keys(4), VOCAB, LENGTH)
    batch = jax.tree.map(jnp.asarray, batch)
    batch |= {"example": jnp.arange(4, dtype=jnp.int32), "carry": None}
    batch |= make_constants(objective, VOCAB)
    options = networks.from_config(model)
    network = networks.build(options, objective.needs(VOCAB), VOCAB)
    key = fast_key.key(0)
    score = lambda net: objective.loss(net, batch, key)  # noqa: E731
    params = networks.unbox(jax.jit(lambda k: networks.init(network, score, k))(key))
    return Small(objective, options, network, params, batch)


def by_path(params: dict) -> dict[str, np.ndarray]:
    """Path, as in stack/blocks/..., -> parameter."""
    leaves = jax.tree_util.tree_leaves_with_path(params)
    return {"/".join(str(k.key) for k in path): np.asarray(x) for path, x in leaves}


def states(width: int = WIDTH) -> np.ndarray:
    """[1, N, D]: random states."""
    return np.random.default_rng(2).normal(size=(1, 6, width)).astype(np.float32)


def dense(part: dict, x: np.ndarray) -> np.ndarray:
    return x @ np.asarray(part["kernel"]) + np.asarray(part["bias"])


def norm(part: dict, x: np.ndarray, options: Any) -> np.ndarray:
    x = x - x.mean(axis=-1, keepdims=True)
    x = x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + options.norm_epsilon)
    return x * np.asarray(part["scale"]) + np.asarray(part["bias"])


def gelu(x: np.ndarray, options: Any) -> np.ndarray:
    return np.asarray(jax.nn.gelu(x, approximate=GELU[options.activation]))


def same(one: Any, other: Any) -> bool:
    return bool(np.allclose(one, other, atol=2e-4))


def logits(readout: Any) -> jax.Array:
    """Of the vocabulary's own rows."""
    every = readout.feature @ readout.table.T + readout.bias[None, None]
    return every[..., : VOCAB.size]


def transform_readout(system: System, part: str, params: dict, width: int) -> str:
    """What the readout of a part of the network is; "": of the network itself."""
    own = small(system.name)
    part_of = lambda net: getattr(net, part) if part else net  # noqa: E731
    x = states(width)
    ours = own.run(lambda net: logits(part_of(net).readout(x)), params)
    head = params[part]["output"] if part else params["output"]
    table = by_path(params)[("discriminator/" if part else "") + "token/embedding"]
    y = norm(head["norm"], gelu(dense(head["dense"], x), own.options), own.options)
    y = y @ table.T + np.asarray(head["bias"])
    fits = same(ours, y[..., : VOCAB.size])
    narrow = head["dense"]["kernel"].shape[1] != width
    rest = "gelu, norm, token table, bias"
    return phrase(
        {
            f"dense, {rest}": fits and not narrow,
            f"dense to the embedding width, {rest}": fits and narrow,
        }
    )


@guard("readout")
def readout(system: System):
    return transform_readout(system, "", small(system.name).randomized(), WIDTH)


@guard("generator's readout")
def generator_readout(system: System):
    params = small(system.name).randomized()
    width = params["generator"]["output"]["dense"]["kernel"].shape[0]
    return transform_readout(system, "generator", params, width)


@guard("pooler")
def pooler(system: System):
    own, x = small(system.name), states()
    params, (name,) = own.randomized(), [own.objective.sentence_task]
    ours = own.run(lambda net: net.head(name, x), params)
    hidden = dense(params["pooler"], x)
    out = params[f"head_{name}"]["out"]
    return phrase(
        {
            "dense, tanh": same(ours, dense(out, np.tanh(hidden))),
            "dense": same(ours, dense(out, hidden)),
            "none": same(ours, dense(out, x)),
        }
    )


def head_dropout(system: System, part: str, name: str, width: int = WIDTH) -> float:
    """0, or the rate at which a head drops its hidden layer."""
    own, x = small(system.name), states(width)
    part_of = lambda net: getattr(net, part) if part else net  # noqa: E731
    score = lambda net: part_of(net).head(name, x)  # noqa: E731
    own = own.with_options(head_dropout=0.5)
    dropped = own.run(score, dropout=True)
    return 0.0 if same(own.run(score), dropped) else 0.5


@guard("dropout after the pooler")
def pooler_dropout(system: System):
    objective = small(system.name).objective
    if hasattr(objective, "base_objective"):  # ERNIE: of all parts
        return head_dropout(system, "", "nsp")
    return head_dropout(system, "", objective.sentence_task)


@guard("dropout in the discriminator's head")
def discriminator_dropout(system: System):
    return head_dropout(system, "discriminator", "replaced")


@guard("discriminator's head")
def discriminator_head(system: System):
    own, x = small(system.name), states()
    params = own.randomized()
    ours = own.run(lambda net: net.discriminator.head("replaced", x), params)
    head = params["discriminator"]["head_replaced"]
    theirs = dense(head["out"], gelu(dense(head["dense"], x), own.options))
    one = ours.shape[-1] == 1 and same(ours, theirs)
    return phrase({"dense, gelu, dense to one value": one})


@guard("initial values of the discriminator's last layer and of projections")
def glorot_layers(system: System):
    """Of the narrow projections of the small model's embeddings, and of the head."""
    params = by_path(small(system.name).params)
    wide = [
        params["discriminator/stack/project/kernel"],
        params["generator/stack/project/kernel"],
        params["discriminator/head_replaced/out/kernel"],
    ]
    limits = [np.sqrt(6 / sum(kernel.shape)) for kernel in wide]
    within = zip(wide, limits, strict=True)
    uniform = all(0.85 * x < abs(kernel).max() <= x for kernel, x in within)
    small_values = all(abs(kernel).max() <= 0.0401 for kernel in wide)
    return phrase(
        {"Glorot uniform": uniform, "truncated at 0.04": small_values and not uniform}
    )


@guard("generator")
def generator(system: System):
    each = []
    for size in system.sizes:
        config = system.config(size)
        options = networks.from_config(config.model)
        own = generator_options(options, config.objective.generator_size)
        each.append(
            own.layers == options.layers
            and own.width // own.heads == 64
            and own.feedforward == 4 * own.width
        )
    return phrase({"as deep; heads of width 64, feed-forward 4 x width": all(each)})


@guard("bias of the softmax")
def softmax_bias(system: System):
    own = small(system.name)
    bias = own.run(lambda net: net.readout(states()).bias, own.randomized())
    return phrase({"none": not bias[: VOCAB.size].any(), "one an entry": bias[9] != 0})


@guard("norm after the last block")
def final_norm(system: System):
    own = small(system.name)
    x = own.run(lambda net: net.states(own.batch))
    return same(x.mean(axis=-1), 0) and bool(np.allclose(x.var(axis=-1), 1, atol=0.02))


@guard("boundary head")
def boundary_head(system: System):
    own = small(system.name)
    params, options = own.randomized(), own.options
    left, right = states(), states()[:, ::-1]
    offset = np.arange(6)[None]
    ours = own.run(lambda net: logits(net.boundary(left, right, offset)), params)
    head = params["boundary_head"]
    x = np.concatenate([left, right, np.asarray(head["offset"])[offset]], axis=-1)
    for name in ("first", "second"):
        x = norm(head[f"{name}_norm"], gelu(dense(head[name], x), options), options)
    theirs = x @ np.asarray(params["token"]["embedding"]).T + np.asarray(head["bias"])
    equal = same(ours, theirs[..., : VOCAB.size]) and head["offset"].shape[1] == 200
    layers = "two layers (dense, gelu, norm), offsets of width 200"
    return phrase({f"{layers}, the token table, a bias": equal})


@guard("weight of the boundary loss")
def boundary_weight(system: System):
    own = small(system.name)
    terms, _ = own.run(lambda net: own.objective.loss(net, own.batch, None))
    return float(terms["sbo"].coef)


@guard("dropout of embeddings")
def embedding_dropout(system: System):
    own = small(system.name)
    table = lambda net: net.readout(states()).table  # noqa: E731
    in_readouts = not same(own.run(table), own.run(table, dropout=True))
    return phrase(
        {
            "of the rows of the table, in readouts as well": in_readouts,
            "of the sum of token and position": not in_readouts,
        }
    )


@guard("query vector")
def query_vector(system: System):
    own = small(system.name)
    vector = by_path(own.params).get("query_embedding/vector", np.zeros(0))
    return phrase({"a parameter of its own": vector.shape == (1, WIDTH)})


@guard("projections of attention")
def attention_biases(system: System):
    names = [n for n in by_path(small(system.name).params) if "attention/" in n]
    biased = [n for n in names if n.endswith("/bias")]
    return phrase({"no biases": names and not biased, "biases": bool(biased)})


@guard("relative positions")
def relative_positions(system: System):
    """The shapes of the tables, and the logits' biases of distances 127 to 200."""
    params = by_path(small(system.name).params)
    tables = [x.shape for n, x in params.items() if n.endswith("relative")]
    far = {int(relative_bucket(-n, one_way=True, numpy=np)) for n in (128, 200, 500)}
    near = int(relative_bucket(-100, one_way=True, numpy=np))
    one_a_stack = tables == [(32, 2), (32, 2)]
    clipped = far == {31} and near < 31
    return phrase({"32 buckets up to 128, one table a stack": one_a_stack and clipped})


@guard("scale of attention logits")
def attention_scale(system: System):
    """With queries times the square root of a head's width, and the usual scale, the
    states are the same.
    """
    own = small(system.name)
    params = jax.tree_util.tree_map_with_path(
        lambda path, x: (
            x * (WIDTH / 2) ** 0.5
            if "query" in str(path) and "rel" not in str(path)
            else x
        ),
        own.params,
    )
    group = input_group(own.batch, "encoder_")
    encode = lambda net: net.encode(group).states  # noqa: E731
    plain = own.run(encode)
    scaled = own.with_options(init="normal").run(encode, params)
    return phrase({"none": same(plain, scaled)})


@guard("tied readout")
def tied_readout(system: System):
    own, x = small(system.name), states()
    feature = own.run(lambda net: net.readout(x).feature)
    return phrase(
        {
            "features times width^-0.5": same(feature, x * WIDTH**-0.5),
            "features": same(feature, x),
        }
    )


@guard("initial kernels of the feed-forward layer")
def feedforward_init(system: System):
    params = by_path(small(system.name).params)
    kernel = params["encoder/blocks/feedforward/in/kernel"]
    cut = abs(kernel).max() / kernel.std() < 2.4
    return phrase(
        {"truncated at two standard deviations": cut, "not truncated": not cut}
    )


@guard("initial relative biases")
def relative_init(system: System):
    table = by_path(small(system.name).params)["encoder/relative"]
    glorot = np.sqrt(2 / sum(table.shape))
    return phrase(
        {
            "Glorot uniform": abs(table.std() / glorot - 1) < 0.25,
            "N(0, 1 / width)": abs(table.std() / WIDTH**-0.5 - 1) < 0.25,
        }
    )


@guard("dropout over positions")
def dropout_over_positions(system: System):
    """Of rows of one token without relative biases, whose states are all the same."""
    own = small(system.name)
    group = input_group(own.batch, "encoder_")
    group["token"] = jnp.full_like(group["token"], 200)
    params = jax.tree_util.tree_map_with_path(
        lambda path, x: 0 * x if str(path[-1].key) == "relative" else x, own.params
    )
    encode = lambda net: net.encode(group).states  # noqa: E731
    plain = own.run(encode, params)
    dropped = own.run(encode, params, dropout=True)
    assert same(plain[:, :1], plain[:, :9])
    one = same(dropped[:, :1], dropped[:, :9])
    return phrase(
        {
            "one draw for all positions of a row": one,
            "a draw for each position": not one,
        }
    )


@guard("projections of the adaptive softmax")
def adaptive_projections(system: System):
    """Of the large network, whose tables are narrower: one projection of the readout's
    own, whose readouts change with those of the input.
    """
    own = small(system.name, "large")
    names = [n for n in by_path(own.params) if n.endswith("project")]
    first = names.count("output/project") == 1
    shared = [n for n in names if n.startswith("token/")]
    only = len(names) == 1 + len(shared) and len(shared) == 3
    return phrase({"those of the input, but for the first": first and only})


@guard("initial projections")
def adaptive_projection_init(system: System):
    params = by_path(small(system.name, "large").params)
    values = np.concatenate([x.ravel() for n, x in params.items() if "project" in n])
    return phrase({"N(0, 0.01)": abs(values.std() / 0.01 - 1) < 0.05})


@guard("initial scale of norms")
def norm_init(system: System):
    params = by_path(small(system.name).params)
    scale = np.concatenate([x.ravel() for n, x in params.items() if "scale" in n])
    return phrase(
        {"N(1, 0.02)": 0.01 < scale.std() < 0.03, "1": bool((scale == 1).all())}
    )


@guard("states before and after a mention")
def mention_states(system: System):
    """What the loss of mentions is made of, with parameters at random."""
    own = small(system.name)
    params, batch = own.randomized(), own.batch
    terms, _ = own.run(lambda net: own.objective.loss(net, batch, None), params)
    at = jnp.concatenate([batch["before"], batch["after"]], axis=1)
    x = np.asarray(own.run(lambda net: net.states(batch, scored=at), params))
    head = params["output"]
    layers = norm(head["norm"], gelu(dense(head["dense"], x), own.options), own.options)

    def loss(state: np.ndarray) -> float:
        both = np.concatenate(np.split(state, 2, axis=1), axis=-1)
        values = dense(params["head_entity"]["out"], both)
        if values.shape[-1] == 1:
            values = np.concatenate([0 * values, values], axis=-1)
        log_p = values - np.log(np.exp(values).sum(axis=-1, keepdims=True))
        own_class = np.asarray(batch["replaced"])[..., None]
        picked = np.take_along_axis(log_p, own_class, axis=-1)[..., 0]
        return -(picked * np.asarray(batch["mention_weight"])).sum()

    found = float(terms["entity"].total)
    transformed = np.isclose(found, loss(layers), rtol=1e-3)
    is_dropped = head_dropout(system, "", "entity", 2 * WIDTH) > 0
    return phrase(
        {
            "after the layers before the readout's table, concatenated, then dropout": (
                transformed and is_dropped
            ),
            "of the last block, concatenated": np.isclose(found, loss(x), rtol=1e-3),
        }
    )


@guard("dropout of the generator that samples")
def dropout_of_samples(system: System):
    """The generator runs once a loss, so that its samples are of the trained pass."""
    own, calls = small(system.name), []

    class Counted:
        def __init__(self, net):
            self.net = net

        def __getattr__(self, name):
            member = getattr(self.net, name)
            if name == "states":
                calls.append(name)
            return member

    class Net:
        def __init__(self, net):
            self.generator, self.discriminator = (
                Counted(net.generator),
                net.discriminator,
            )

    own.run(lambda net: own.objective.loss(Net(net), own.batch, jax.random.key(0))[0])
    return phrase({"that of the pass that is trained": len(calls) == 1})


@guard("vector that is contrasted")
def contrasted_vector(system: System):
    params = by_path(small(system.name).params)
    heads = {name.split("/")[1] for name in params if "/head_" in name}
    return phrase({"the state at bos": heads == {"head_replaced"}})


@guard("bias of restored tokens")
def bias_of_restored_tokens(system: System):
    params = by_path(small(system.name).params)
    has_bias = "discriminator/output/bias" in params
    return phrase({"none": not has_bias, "one for each token": has_bias})
