"""The laws of every network; modules are found by listing the folder, and the examples
of docs/examples/networks with them.

What a network cannot do it does not declare (`abilities`): those cases do not exist.
Where all positions are of one segment the patterns are transitive, so that a state of
several layers depends on what the arrays allow and on nothing else.
"""

# B batch, L length, P scored positions, D width

import dataclasses
import importlib
import inspect
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import docs
from research import networks
from research.contract.batch import FEATURE, attention_mask
from research.contract.errors import UserError
from research.distributed import sharding
from research.distributed.options import MeshOptions
from research.networks import FOLDER, Ability, HeadSpec, Needs, readouts
from research.networks.shared.needs import STACKS
from research.networks.transformer import feature_layers, positions
from research.networks.transformer.options import TransformerOptions
from research.program import flops
from tests.testing import fast_key
from tests.testing.compiled_apply import apply
from tests.testing.example_batches import vocab
from tests.testing.readout_keys import example_keys
from tests.testing.trees import assert_close, make_params, parameter_shapes

EXAMPLES = {
    path.stem: importlib.import_module(f"docs.examples.networks.{path.stem}").Network
    for path in (Path(docs.__path__[0]) / "examples" / "networks").glob("*.py")
}
NAMES = sorted([*FOLDER.names(), *EXAMPLES])
VOCAB = vocab(size=50)
LENGTH, HALF = 12, 6
TRANSFORMER = {
    **{"layers": 2, "width": 16, "max_length": 32, "token_types": 2},
    **{"heads": 2, "feedforward": 24, "scan_unroll": 1},
}
"""Keys of which a network has some; those that only it has are its `small_keys`."""
READOUTS = {n: cls.chosen_by for n, cls in readouts.outputs().items() if cls.chosen_by}
"""Name of each readout that a key chooses -> that key."""
FIXED = ("attention", "remat", "input", "feature_layers", "position_bias")
"""Choices that have tests of their own: that they change no number, what vectors of
characters and what projections depend on, what is added beside any positions."""
PATTERNS = {p: Ability[p.upper()] for p in ("full", "causal", "general", "self")}
REMATERIALISATION = "nvoluntary full remat"
"""What XLA's C++ code logs where it replicates a tensor for want of a better way."""


def variants(name: str) -> list[networks.Network]:
    """Networks that together have every choice of the keys that are this network's.

    The n-th has the n-th legal value of each, where that goes with the others.
    """
    cls = EXAMPLES.get(name) or FOLDER.part_class(name, "model.network")
    bases = networks.Network.__mro__
    classes = [base for base in cls.__mro__ if base not in bases]
    own = {name for base in classes for name in inspect.get_annotations(base)}
    choices = {
        field.name: field.metadata.get("values", (False, True))
        for field in dataclasses.fields(cls)
        if field.name in own and field.name not in FIXED
        if "values" in field.metadata or isinstance(field.default, bool)
    }
    known = {field.name for field in dataclasses.fields(cls)}
    small = {key: value for key, value in TRANSFORMER.items() if key in known}
    base = cls(**small | cls.small_keys)
    found = []
    for number in range(max(map(len, choices.values()), default=1)):
        network = base
        for key, values in choices.items():
            changes = {key: values[number % len(values)]}
            try:
                changed = dataclasses.replace(network, **changes)
                networks.build(changed, Needs(pattern=patterns_of(base)[0]), VOCAB)
            except UserError:
                continue  # it does not go with those before
            network = changed
        found.append(network)
    return found


def patterns_of(network: networks.Network) -> list[str]:
    """The patterns that a network can honour."""
    return [p for p, ability in PATTERNS.items() if ability in network.abilities]


def find_cases(*abilities: Ability, patterns=tuple(PATTERNS)) -> list:
    """Each variant of each network that has the abilities, with what it is asked for:
    the patterns that the network has in turn, and the mems if they are an ability."""
    found = []
    for name in NAMES:
        for number, network in enumerate(variants(name)):
            able = [p for p in patterns_of(network) if p in patterns]
            able = [p for p in able if p != "self"] or able  # the others show more
            if not able or {*abilities} - {*network.abilities}:
                continue
            pattern = able[number % len(able)]
            needs = Needs(pattern=pattern, mems=Ability.MEMS in abilities)
            try:
                networks.build(network, needs, VOCAB)
            except UserError:
                continue  # a key does not go with what is needed
            # A network with the transformer's keys shows again what its cases show.
            is_long = (
                number > 0
                and name != "transformer"
                and isinstance(network, TransformerOptions)
            )
            marks = [pytest.mark.long] * is_long
            case = f"{name}-{number}-{pattern}"
            found.append(pytest.param(network, needs, id=case, marks=marks))
    return found


def cases(*abilities: Ability, more=(), **patterns) -> pytest.MarkDecorator:
    """A test of all that `find_cases` finds, and more."""
    found = [*find_cases(*abilities, **patterns), *more]
    return pytest.mark.parametrize(("network", "needs"), found)


def with_positions(pattern: str) -> list:
    """A transformer of each scheme of positions."""
    base = FOLDER.part_class("transformer", "model.network")(**TRANSFORMER)
    return [
        pytest.param(
            dataclasses.replace(base, position=name),
            Needs(pattern=pattern),
            id=f"position-{name}",
        )
        for name in positions.FOLDER.names()
    ]


def one_of_each(*abilities: Ability) -> list:
    """A case of each network that has the abilities: with mems, if it has them."""
    found = [*find_cases(*abilities), *find_cases(Ability.MEMS, *abilities)]
    return [*{case.values[0].name: case for case in found}.values()]


def long_but_the_first(**patterns) -> list:
    """All cases, of which those after the first of a network have the mark `long`."""
    found = find_cases(**patterns)
    first = {case.values[0].name: case.id for case in reversed(found)}
    return [
        pytest.param(
            *case.values,
            id=case.id,
            marks=[pytest.mark.long] * (case.id != first[case.values[0].name]),
        )
        for case in found
    ]


def make_group(pattern: str, rows: int = 2, length: int = LENGTH, seed: int = 0):
    """Random tokens in one segment; the general pattern has a prefix of three."""
    random = np.random.default_rng(seed)
    position = np.tile(np.arange(length, dtype=np.int32), (rows, 1))
    group = {
        "token": random.integers(5, VOCAB.size, position.shape, dtype=np.int32),
        "position": position,
        "segment": np.ones_like(position),
        "token_type": position % 2,
    }
    return group | with_pattern(pattern, position)


def with_pattern(pattern: str, position: np.ndarray) -> dict[str, np.ndarray]:
    """rank and reach of a pattern, and the lowest rank of one that has it."""
    prefix = np.maximum(0, position - 2)
    own = {"full": 0 * position, "general": prefix}
    rank = own.get(pattern, position)
    low = {"low": rank.copy()} if pattern == "self" else {}
    return {"rank": rank, "reach": rank.copy()} | low


def make_case(network, needs, group):
    """The module of a network, and random parameters of its states."""
    module = networks.build(network, needs, VOCAB)
    return module, make_params(module, lambda net: net.states(group))


def part(group, *ends):
    return {name: array[:, slice(*ends)] for name, array in group.items()}


@pytest.mark.parametrize("name", NAMES)
def test_each_ability_is_served_by_a_variant_and_others_are_refused(name):
    able = patterns_of(variants(name)[0])
    some = partial(Needs, pattern=able[0])
    needs_of = {
        **{ability: Needs(pattern=p) for p, ability in PATTERNS.items()},
        **{words: some(stacks=stack) for stack, words in STACKS.items()},
        Ability.MEMS: Needs(pattern=min(able, key="causal".__ne__), mems=True),
        Ability.MEM_LIMITS: some(mem_limits=True),
        Ability.QUERIES: some(queries=True),
        Ability.TOKEN_BIAS: some(token_bias=True),
        Ability.UNDROPPED: some(undropped=True),
        Ability.BOUNDARIES: some(boundary_offsets=3),
        Ability.FEATURES: some(features="mix"),
        Ability.VIEWS: Needs(
            pattern="full" if "full" in able else able[0], features=networks.VIEWS
        ),
        Ability.LAYERS: some(layers=True),
        Ability.INPUT_FEATURES: some(input_features=TRANSFORMER["width"]),
        Ability.FUTURE: some(future=1),
        Ability.SPANS: some(span_width=TRANSFORMER["width"]),
    }
    for ability in Ability:
        errors = []
        for network in variants(name):
            try:
                networks.build(network, needs_of[ability], VOCAB)
            except UserError as error:
                errors.append(str(error))
        if ability in variants(name)[0].abilities:
            assert len(errors) < len(variants(name)), ability
        else:
            expected = f"model.network {name} has no {ability}, which"
            assert all(error.startswith(expected) for error in errors), ability
            assert len(errors) == len(variants(name)), ability


@pytest.mark.parametrize("output", READOUTS)
@pytest.mark.parametrize("stacks", STACKS)
@pytest.mark.parametrize("name", NAMES)
def test_a_readout_predicts_all_words_or_is_refused(name, stacks, output):
    for network in variants(name):
        for pattern in patterns_of(network):
            needs = Needs(pattern=pattern, stacks=stacks)
            try:
                networks.build(network, needs, VOCAB)
            except UserError:
                continue  # it does not serve these needs in any case
            try:
                logits = logits_of_stacks(network, needs, output)
            except UserError as error:
                assert f"model.{READOUTS[output]}" in str(error)
                continue
            assert all(each.shape[-1] == VOCAB.size for each in logits)


def logits_of_stacks(network, needs, output: str) -> list[jax.Array]:
    """The shapes of the logits of each stack of a network with a readout."""
    keys = example_keys(output, type(network))
    network, group = dataclasses.replace(network, **keys), make_group(needs.pattern)
    module = networks.build(network, needs, VOCAB)
    found = []

    def read(net):
        stacks = {"one": [net]}
        if needs.stacks == "two_directions":
            stacks[needs.stacks] = [net.forward, net.backward]
        if needs.stacks == "towers":
            stacks[needs.stacks] = [net.text]
        for stack in stacks[needs.stacks]:
            states = stack.states(group, scored=np.zeros((2, 3), np.int32))
            found.append(stack.readout(states).logits())

    jax.eval_shape(lambda: networks.init(module, read, fast_key.key(0)))
    return found


@cases(more=with_positions("full"))
def test_scored_states_are_the_gathered_ones(network, needs):
    group = make_group(needs.pattern)
    module, params = make_case(network, needs, group)
    scored = np.array([[3, 0, 0, 11], [9, 8, 1, 2]], np.int32)

    def total(params, inside):
        def states(net):
            if inside:
                return net.states(group, scored=scored)
            return jnp.take_along_axis(net.states(group), scored[..., None], axis=1)

        states = networks.apply(module, params, states)
        return jnp.sum(jnp.sin(states)), states

    @jax.jit  # in one program, which computes what both have once
    def both(params):
        grad = jax.value_and_grad(total, has_aux=True)
        return [grad(params, inside) for inside in (True, False)]

    assert_close(*both(params))


@cases()
def test_a_state_depends_on_what_the_arrays_allow(network, needs):
    # Each position reads its own token, whose embedding's gradient identifies it.
    group = make_group(needs.pattern, rows=1)
    group["token"] = np.arange(LENGTH, dtype=np.int32)[None]
    group["segment"] = np.array([[1] * 5 + [2] * 5 + [0] * 2], np.int32)
    group["position"] = np.array([[*range(5), *range(5), 0, 0]], np.int32)
    group |= with_pattern(needs.pattern, group["position"])
    module, params = make_case(network, needs, group)
    draw = np.random.default_rng(0).normal

    @jax.jit
    @jax.jacrev
    def reads(rows):
        changed = params | {"token": {"embedding": rows}}
        states = networks.apply(module, changed, lambda net: net.states(group))
        return states[0] @ draw(size=states.shape[-1]).astype(np.float32)

    table = params["token"]["embedding"]
    of_rows = np.array(reads(table))[:, :LENGTH]
    found = np.any(of_rows != 0, axis=tuple(range(2, of_rows.ndim)))
    is_text = group["segment"][0] > 0
    allowed = attention_mask(group)[0]
    for query, key in np.argwhere((found != allowed) & is_text[:, None]):
        does, may = found[query, key], allowed[query, key]
        raise AssertionError(
            f"the state of position {query} {'reads' if does else 'does not read'} "
            f"position {key}, which segment, rank and reach "
            f"{'allow' if may else 'forbid'}"
        )
    assert not found[~is_text][:, is_text].any(), "padding reads text"


def with_vectors() -> list:
    """A case of each network that reads them, and a transformer of each projection.

    Projections read a patch of 4 x 4 pixels, networks vectors of their own width.
    """
    base = variants("transformer")[0]
    needs = Needs(pattern="general", input_features=3 * 4**2)
    return one_of_each(Ability.INPUT_FEATURES) + [
        pytest.param(
            dataclasses.replace(base, feature_layers=name), needs, id=f"features-{name}"
        )
        for name in feature_layers.FOLDER.names()
    ]


@pytest.mark.parametrize(
    "name", feature_layers.FOLDER.names(), ids=lambda name: f"features-{name}"
)
def test_the_fields_of_a_projection_are_keys_of_every_transformer(name):
    """And of no other network, unless they have its default."""
    cls = feature_layers.FOLDER.part_class(name, "model.feature_layers")
    own = {field.name: field.default for field in dataclasses.fields(cls)}
    for network in FOLDER.names():
        keys = dataclasses.fields(FOLDER.part_class(network, "model.network"))
        for key in keys:
            if key.name in own:
                assert key.default == own[key.name], f"{network} has a key {key.name}"
        if issubclass(FOLDER.part_class(network, "model.network"), TransformerOptions):
            made = {key.name for key in keys if name in key.metadata.get("parts", ())}
            assert made == own.keys(), f"{network} has fields of these names"


@pytest.mark.parametrize(("network", "needs"), with_vectors())
def test_a_state_reads_the_vectors_of_the_positions_it_attends_to(network, needs):
    """A position whose vector is 0 reads its token alone."""
    width = needs.input_features or network.table_width
    needs = dataclasses.replace(needs, input_features=width)
    group = make_group(needs.pattern, rows=1)
    group["segment"] = np.array([[1] * 5 + [2] * 5 + [0] * 2], np.int32)
    shape = (1, LENGTH, width)
    vectors = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    module = networks.build(network, needs, VOCAB)
    params = make_params(module, lambda net: net.states(group | {FEATURE: vectors}))
    probe = np.random.default_rng(1).normal(size=network.width).astype(np.float32)

    @jax.jit
    def states(vectors):
        run = lambda net: net.states(group | {FEATURE: vectors})  # noqa: E731
        return networks.apply(module, params, run)

    found = jax.jit(jax.jacrev(lambda vectors: states(vectors)[0] @ probe))(vectors)
    is_text = group["segment"][0] > 0
    allowed = attention_mask(group)[0] & is_text
    reads = np.any(np.array(found)[:, 0] != 0, axis=-1)
    np.testing.assert_array_equal(reads[is_text], allowed[is_text])
    alone = apply(module, params, lambda net: net.states(group))
    assert_close(states(0 * vectors), alone)


@pytest.mark.parametrize(("network", "needs"), one_of_each(Ability.LAYERS))
def test_the_last_of_all_layers_states_are_the_states(network, needs):
    group = make_group(needs.pattern)
    module, params = make_case(network, needs, group)
    layers, states = apply(
        module, params, lambda net: (net.layers(group), net.states(group))
    )
    np.testing.assert_allclose(layers.states[-1], states, atol=1e-5)
    assert layers.states.shape == (network.layers + 1, *states.shape)
    for projection in layers[1:]:
        assert projection.shape[:3] == (network.layers, *states.shape[:2])


@cases(more=with_positions("full"))
def test_packed_texts_have_the_states_of_each_alone(network, needs):
    sizes = (7, 5)
    alone = make_group(needs.pattern)
    for row, size in enumerate(sizes):
        alone["segment"][row, size:] = 0
    joined = {
        name: np.concatenate([array[0, : sizes[0]], array[1, : sizes[1]]])[None]
        for name, array in alone.items()
    }
    joined["segment"] = np.repeat([1, 2], sizes).astype(np.int32)[None]
    module, params = make_case(network, needs, alone)
    states, packed = (
        apply(module, params, lambda net, group=group: net.states(group))
        for group in (alone, joined)
    )
    expected = [states[row, :size] for row, size in enumerate(sizes)]
    assert_close(packed[0], np.concatenate(expected))


def padded_texts(pattern: str):
    """Two texts of which the second has less before the rest, so that it is padded."""
    group, start = make_group(pattern), HALF - 2
    group["segment"][1, start:HALF] = 0
    position = np.cumsum(group["segment"] > 0, axis=1, dtype=np.int32) - 1
    return group | {"position": position} | with_pattern(pattern, position)


@cases(patterns=("causal", "general"), more=with_positions("causal"))
def test_a_cache_changes_no_state(network, needs):
    """Also with the scored positions alone, and with slots that stay empty."""
    group = padded_texts(needs.pattern)
    module, params = make_case(network, needs, group)

    @jax.jit
    def read_first(group):
        def run(net):
            cache, scored = net.empty_cache(2, LENGTH + 3), np.array([[1], [2]])
            outputs = net.outputs(group, scored=scored, cache=cache)
            return outputs.states, outputs.cache

        return networks.apply(module, params, run)

    @jax.jit  # compiled once for all tokens that follow
    def read_next(group, cache):
        run = lambda net: net.outputs(group, cache=cache)  # noqa: E731
        outputs = networks.apply(module, params, run)
        return outputs.states, outputs.cache

    whole = apply(module, params, lambda net: net.states(group))
    first, cache = read_first(part(group, 0, HALF))
    np.testing.assert_allclose(first[0, 0], whole[0, 1], atol=1e-5)
    np.testing.assert_allclose(first[1, 0], whole[1, 2], atol=1e-5)
    for n in range(HALF, LENGTH):
        state, cache = read_next(part(group, n, n + 1), cache)
        np.testing.assert_allclose(state, whole[:, n : n + 1], atol=1e-5)


@pytest.mark.parametrize(
    ("network", "needs"), long_but_the_first(patterns=("causal", "general"))
)
def test_rows_of_a_cache_are_repeated_and_selected(network, needs):
    group, row = make_group(needs.pattern, rows=2), np.array([0, 3, 3, 1])
    module, params = make_case(network, needs, group)
    four = {name: array[row // 2] for name, array in group.items()}

    @jax.jit
    def last(params):
        def run(net):
            cache = net.empty_cache(2, LENGTH)
            cache = net.outputs(part(group, 0, HALF), cache=cache).cache
            cache = cache.repeat_rows(2).select_rows(row)
            return net.outputs(part(four, HALF, LENGTH), cache=cache).states

        return networks.apply(module, params, run)

    whole = apply(module, params, lambda net: net.states(four))
    np.testing.assert_allclose(last(params), whole[:, HALF:], atol=1e-5)


def run_parts(module, params, parts):
    """The states of each part and the mems after it, starting from empty mems."""

    def run(net):
        mems, results = net.empty_mems(len(parts[0]["token"]), HALF + 2), []
        for each in parts:
            outputs = net.outputs(each, mems=mems)
            mems = outputs.mems
            results.append((outputs.states, mems))
        return results

    return jax.jit(lambda params: networks.apply(module, params, run))(params)


def two_rows_of_a_stream(rows: int = 2):
    """The whole of a causal text, and its halves as rows of two steps.

    Token types are 0, as those of mems are.
    """
    group = make_group("causal", rows)
    group["token_type"] = 0 * group["token_type"]
    second = part(group, HALF, LENGTH)
    own = {name: second[name] - HALF for name in ("position", "rank", "reach")}
    return group, (part(group, 0, HALF), second | own)


@cases(Ability.MEMS, patterns=("causal",))
def test_with_mems_a_row_goes_on_where_the_row_before_it_ended(network, needs):
    group, parts = two_rows_of_a_stream()
    module, params = make_case(network, needs, group)
    whole = apply(module, params, lambda net: net.states(group))
    (first, _), (second, mems) = run_parts(module, params, parts)
    np.testing.assert_allclose(first, whole[:, :HALF], atol=2e-5)
    np.testing.assert_allclose(second, whole[:, HALF:], atol=2e-5)
    # Where their segment is 0 there are none.
    none = mems | {"segment": 0 * mems["segment"]}
    alone = apply(module, params, lambda net: net.outputs(parts[0], mems=none).states)
    np.testing.assert_allclose(alone, first, atol=2e-5)


@cases(Ability.MEMS, patterns=("causal",))
def test_mems_are_split_like_batches(network, needs):
    _, parts = two_rows_of_a_stream(rows=4)
    module, params = make_case(network, needs, parts[0])
    halves = [
        run_parts(module, params, jax.tree.map(lambda x, rows=rows: x[rows], parts))
        for rows in (slice(0, 2), slice(2, 4))
    ]
    joined = jax.tree.map(lambda *each: np.concatenate(each), *halves)
    assert_close(run_parts(module, params, parts), joined)


@cases(Ability.MEMS, patterns=("causal",))
def test_no_gradient_flows_through_mems(network, needs):
    _, parts = two_rows_of_a_stream()
    module, params = make_case(network, needs, parts[0])
    (_, mems), _ = run_parts(module, params, parts)
    real = {name: leaf for name, leaf in mems.items() if name != "segment"}

    @jax.jit
    def score(real):
        def run(net):
            outputs = net.outputs(parts[1], mems=mems | real)
            return jnp.sum(jnp.sin(outputs.states)), outputs.mems

        return networks.apply(module, params, run)

    opposite = jax.tree.map(jnp.negative, real)
    assert abs(score(real)[0] - score(opposite)[0]) > 1e-3
    grads = jax.jit(jax.grad(lambda real: score(real)[0]))(real)
    for leaf in jax.tree.leaves(grads):
        np.testing.assert_array_equal(leaf, 0)


@pytest.mark.parametrize(("network", "needs"), long_but_the_first())
def test_products_round_their_operands_to_bfloat16_and_nothing_else(network, needs):
    group = make_group(needs.pattern)
    module, params = make_case(network, needs, group)
    exact = apply(module, params, lambda net: net.states(group))
    low = dataclasses.replace(network, product_dtype="bfloat16")
    rounded = networks.build(low, needs, VOCAB)

    @jax.jit
    def run(params):
        states = networks.apply(rounded, params, lambda net: net.states(group))
        return jnp.sum(states**2), states

    (_, states), grads = jax.value_and_grad(run, has_aux=True)(params)
    types = {str(leaf.dtype) for leaf in jax.tree.leaves((states, grads))}
    assert types == {"float32"}
    kinds = flops.flops_by_kind(lambda params: run(params)[1], params)
    of_products = {kind for kind in kinds if kind.endswith(flops.PRODUCTS)}
    whole_numbers = {flops.PRODUCTS}
    assert of_products - whole_numbers <= {f"bfloat16{flops.PRODUCTS}"}
    has_products = bool(of_products)
    is_rounded = np.any(np.asarray(states) != np.asarray(exact))
    assert is_rounded == has_products, "operands of products are rounded, if any"
    assert_close(states, exact, 0.05)


@pytest.mark.parametrize(("network", "needs"), long_but_the_first())
def test_bfloat16_is_the_type_of_activations_only(network, needs):
    group = make_group(needs.pattern)
    module, params = make_case(network, needs, group)
    exact = apply(module, params, lambda net: net.states(group))
    low = dataclasses.replace(network, dtype="bfloat16")
    rounded = networks.build(low, needs, VOCAB)
    shapes = parameter_shapes(rounded, lambda net: net.states(group))
    assert {str(leaf.dtype) for leaf in jax.tree.leaves(shapes)} == {"float32"}

    @jax.jit
    def run(params):
        states = networks.apply(rounded, params, lambda net: net.states(group))
        return jnp.sum(states.astype(jnp.float32) ** 2), states

    (_, states), grads = jax.value_and_grad(run, has_aux=True)(params)
    assert states.dtype == jnp.bfloat16
    assert {str(leaf.dtype) for leaf in jax.tree.leaves(grads)} == {"float32"}
    assert_close(states, exact, 0.1)


def loss_and_gradient(module, needs, mesh):
    """Of all states, the readout and a head, on a mesh."""
    group = make_group(needs.pattern, rows=8, length=16)

    def fn(net):
        if needs.mems:
            states = net.outputs(group, mems=net.empty_mems(8, 12)).states
        else:
            states = net.states(group)
        readout = net.readout(states)
        logits = readout.feature @ readout.table.T + readout.bias[None, None]
        head = jnp.sum(jnp.sin(net.head("label", states[:, -1])))
        return jnp.mean(jax.nn.logsumexp(logits, axis=-1)) + head

    boxed = jax.eval_shape(lambda: networks.init(module, fn, jax.random.key(0)))
    axes, shapes = networks.logical_axes(boxed), networks.unbox(boxed)
    shard = lambda names, leaf: sharding.parameter_sharding(names, leaf.shape, mesh)  # noqa: E731
    shardings = jax.tree.map(shard, axes, shapes, is_leaf=sharding.is_logical_axes)
    with sharding.context(mesh):
        params = jax.device_put(make_params(module, fn), shardings)
        step = jax.value_and_grad(lambda params: networks.apply(module, params, fn))
        out = sharding.replicated(mesh), shardings
        return jax.jit(step, out_shardings=out)(params)


@pytest.mark.parametrize(("network", "needs"), one_of_each())
def test_on_a_mesh_loss_and_gradient_are_the_same(network, needs, capfd):
    needs = dataclasses.replace(needs, heads={"label": HeadSpec(3)})
    module = networks.build(network, needs, VOCAB)

    def mesh_of(size):
        axes = {axis: size for axis in sharding.MESH_AXES}
        return sharding.make_mesh(MeshOptions(**axes), jax.devices()[: size**3])

    expected, actual = (
        loss_and_gradient(module, needs, mesh_of(size)) for size in (1, 2)
    )
    assert_close(actual, expected)
    assert REMATERIALISATION not in capfd.readouterr().err
