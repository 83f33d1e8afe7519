"""Builds what a run needs from its config: data, network, mesh, jitted functions."""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh

from research import networks, objectives
from research.config.config import Config
from research.contract.batch import ArraySpec, Batch, VocabInfo
from research.contract.errors import UserError
from research.contract.state import State
from research.data.cache import resolve_cache_dir
from research.data.pipeline import Data, open_data
from research.data.source.prefetch import prefetch
from research.distributed import processes, sharding
from research.objectives.losses.cross_entropy import Term
from research.optimize import l0_gates
from research.optimize.optimizer import make_optimizer, stop_frozen
from research.optimize.pruning import check_prunable
from research.optimize.width_scaling import initial_values
from research.predictions import prediction_kind
from research.program.constants import Constants
from research.program.step import GRADIENT_NORM, make_evaluate, make_step


class Program(NamedTuple):
    """What `build_program` builds from a config, without allocating device memory."""

    seed: int
    objective: objectives.Objective
    network: networks.Module  # unbound, see `research.networks.apply`
    data: Any  # `Data`; None without text
    mesh: Mesh
    init: Callable[[jax.Array], State]
    init_optimizer: Callable[[Any], Any]  # parameters -> the optimizer's state, jitted
    step: Any  # jitted: (State, batch, key data) -> State
    step_without_remat: Any  # the same, for counting FLOPs
    evaluate: Callable[..., Any]
    abstract_state: State  # shapes with shardings
    abstract_batches: dict[int, Batch]  # length -> shapes of the global batch, for
    # data.length, the longest, and each of data.length_buckets
    abstract_key: jax.ShapeDtypeStruct  # the shape of `key_data`
    abstract_eval_carry: Any  # the shapes of an evaluation's carry
    abstract_eval_sums: Any  # of the sums of its terms, which training may not have
    constants: Constants  # the objective's constants, not read yet
    replicated_dims: list[str]  # dims that the mesh does not divide
    of_vocabulary: frozenset[str]  # names of parameters that have a row for each token

    @property
    def abstract_batch(self) -> Batch:
        """The global batch of data.length."""
        return self.abstract_batches[max(self.abstract_batches)]

    @property
    def step_shapes(self) -> tuple[State, Batch, jax.ShapeDtypeStruct]:
        """The shapes of the arguments of `step`, for data.length."""
        batch = self.abstract_batch | self.constants.abstract
        return self.abstract_state, batch, self.abstract_key

    def key_data(self) -> jax.Array:
        """The data of the seed's key, on all devices: the last argument of `step`."""
        data = np.asarray(jax.random.key_data(jax.random.key(self.seed)))
        own = self.abstract_key.sharding
        return jax.make_array_from_callback(data.shape, own, data.__getitem__)


def build_program(
    config: Config,
    devices: Sequence[jax.Device] | None = None,
    vocab: VocabInfo | None = None,
) -> Program:
    """Builds everything a run needs, from shapes only.

    Args:
      config: the run's config.
      devices: the devices of the mesh; None: all of jax.devices().
      vocab: if given, no text is opened: the program can be compiled but not run.

    Raises:
      UserError: a value of the config makes a run impossible.
    """
    objective, model = config.objective, config.model
    mesh = sharding.make_mesh(config.mesh, devices)
    _check_batch(config, mesh)
    optimizer = make_optimizer(config.optimizer, config.train.steps, model)
    data = None if vocab else open_run_data(config)
    if vocab is None:
        assert data is not None
        vocab = data.vocab
    network = networks.build(model, objective.needs(vocab), vocab)
    lengths = (*config.data.length_buckets, config.data.length)
    batch_specs = _batch_specs(objective, lengths)
    facts = data.vocabulary_facts if data else {}
    constants = Constants(objective.constants(vocab), mesh, facts)
    specs = batch_specs[config.data.length]
    scale = None
    if base_width := config.optimizer.base_width:
        scale = partial(initial_values, model=model, base_width=base_width)
    rest = network, optimizer, specs, config.train.batch, constants, scale
    init = eval_init = make_init(objective, *rest)
    evaluated = objective.for_evaluation()
    if evaluated is not objective:
        eval_init = make_init(evaluated, *rest)
    with sharding.context(mesh):
        key = jax.eval_shape(lambda: jax.random.key(0))
        boxed, eval_boxed = (jax.eval_shape(f, key) for f in (init, eval_init))
    state, shardings = networks.unbox(boxed), state_shardings(boxed, optimizer, mesh)
    if (method := config.optimizer.prune) != "none":
        check_prunable(model, state.params, f"optimizer.prune={method}")
    step = partial(_jit_step, config, optimizer, shardings)
    step_with_remat = step_without_remat = step(network)
    if (no_remat := model.without_remat()) != model:
        step_without_remat = step(
            networks.build(no_remat, objective.needs(vocab), vocab)
        )
    replicated = sharding.replicated(mesh)
    key_data = jax.eval_shape(lambda: jax.random.key_data(jax.random.key(0)))
    return Program(
        seed=config.seed,
        objective=objective,
        network=network,
        data=data,
        mesh=mesh,
        init=jax.jit(lambda key: networks.unbox(init(key)), out_shardings=shardings),
        init_optimizer=jax.jit(optimizer.init, out_shardings=shardings.opt_state),
        step=step_with_remat,
        step_without_remat=step_without_remat,
        evaluate=jax.jit(
            make_evaluate(evaluated, network, seed=config.seed),
            out_shardings=(replicated, shardings.carry, replicated),
        ),
        abstract_state=_with_shardings(state, shardings),
        abstract_batches=_abstract_batches(batch_specs, config.train.batch, mesh),
        abstract_key=_with_shardings(key_data, replicated),
        abstract_eval_carry=_with_shardings(eval_boxed.carry, shardings.carry),
        abstract_eval_sums={
            name: jax.tree.map(
                lambda leaf: jax.ShapeDtypeStruct(
                    leaf.shape, leaf.dtype, sharding=replicated
                ),
                each,
            )
            for name, each in eval_boxed.sums.items()
            if name != GRADIENT_NORM
        },
        constants=constants,
        replicated_dims=sharding.replicated_dims(
            networks.logical_axes(boxed.params), state.params, mesh
        ),
        of_vocabulary=_of_vocabulary(boxed.params),
    )


def with_evaluation(
    program: Program, objective: objectives.Objective, data: Data
) -> Program:
    """The program that evaluates other predictions of the same network.

    Args:
      objective: without terms, and with one length of rows.
      data: its evaluation split is read.
    """
    length, size = max(program.abstract_batches), data.eval.batch_size
    specs = _batch_specs(objective, (length,))
    evaluate = make_evaluate(objective, program.network, seed=program.seed)
    replicated = sharding.replicated(program.mesh)
    return program._replace(
        objective=objective,
        data=data,
        evaluate=jax.jit(evaluate, out_shardings=replicated),
        abstract_batches=_abstract_batches(specs, size, program.mesh),
        abstract_eval_carry=(),
        abstract_eval_sums={},
    )


def _batch_specs(
    objective: objectives.Objective, lengths: Sequence[int]
) -> dict[int, dict[str, ArraySpec]]:
    """The arrays of a batch's rows, for each length."""
    return {
        length: objective.batch_spec(length) | {"example": ArraySpec(())}
        for length in lengths
    }


def _abstract_batches(specs: Any, size: int, mesh: Mesh) -> dict[int, Batch]:
    """Global batches of `size` rows of these arrays, as shapes with shardings."""
    rows = partial(jax.ShapeDtypeStruct, sharding=sharding.batch_sharding(mesh))
    return jax.tree.map(
        lambda spec: rows((size, *spec.shape), spec.dtype),
        specs,
        is_leaf=lambda each: isinstance(each, ArraySpec),
    )


def open_run_data(config: Config) -> Data:
    """The text of a config, its vocabulary and its batches."""
    return open_data(
        config.data,
        config.objective,
        seed=config.seed,
        batch_size=config.train.batch,
        num_steps=config.train.steps,
    )


def _of_vocabulary(boxed: Any) -> frozenset[str]:
    """Names of the parameters that have a vocabulary dim."""
    axes = jax.tree_util.tree_leaves_with_path(
        networks.logical_axes(boxed), is_leaf=sharding.is_logical_axes
    )
    return frozenset(
        jax.tree_util.keystr(path, simple=True, separator="/")
        for path, names in axes
        if "vocab" in names
    )


def _with_shardings(shapes: Any, shardings: Any) -> Any:
    """Abstract arrays of these shapes and shardings."""
    return jax.tree.map(
        lambda x, own: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=own),
        shapes,
        shardings,
    )


def _check_batch(config: Config, mesh: Mesh) -> None:
    """Raises UserError if devices or micro-batches cannot divide the batch."""
    sharding.check_batch_divides(mesh, config.train.batch, config.train.accumulate)
    objective = config.objective
    splits = objective.supports_accumulation or objective.caches_vectors
    if config.train.accumulate > 1 and not splits:
        raise UserError(
            f"train.accumulate={config.train.accumulate}: objective "
            f"{config.objective_name} compares the examples of a batch and cannot be "
            "split; set train.accumulate=1"
        )


def _jit_step(
    config: Config,
    optimizer: optax.GradientTransformation,
    shardings: State,
    network: networks.Module,
) -> Callable[[State, Batch, jax.Array], State]:
    step = make_step(
        config.objective,
        network,
        optimizer,
        accumulate=config.train.accumulate,
        dropout=network.options.has_dropout,
        log_every=config.train.log_every,
        stop_frozen=partial(stop_frozen, parts=config.optimizer.frozen),
        draw=l0_gates.draw if config.optimizer.prune == "l0" else None,
    )
    return jax.jit(step, donate_argnums=0, out_shardings=shardings)


def use_compilation_cache(cache_dir: str) -> None:
    """Makes JAX cache compiled programs in the folder of `data.cache_dir`."""
    folder = resolve_cache_dir(cache_dir) / "xla"
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)


def make_init(
    objective: objectives.Objective,
    network: networks.Module,
    optimizer: optax.GradientTransformation,
    batch_spec: dict[str, ArraySpec],
    batch_size: int,
    constants: Constants | None = None,
    scale: Callable[[Any], Any] | None = None,
) -> Callable[[jax.Array], State]:
    """A function from a random key to the state before step 0.

    Only the parameters that the loss uses are created. They are boxed with their
    logical axes: `networks.unbox` gives the arrays, `state_shardings` reads the axes.

    Args:
      scale: changes initial values; None: as the network draws them.
    """

    def loss_fn(net: networks.BoundNetwork) -> tuple[dict[str, Term], Any]:
        batch = zero_batch(batch_spec, batch_size) | {"carry": None}
        batch |= constants.zeros if constants else {}
        found = objective.loss(net, batch, jax.random.key(0))
        _check_loss(objective.name, found)
        return found

    def init(key: jax.Array) -> State:
        (terms, carry), boxed = networks.init_with_output(network, loss_fn, key)
        boxed = scale(boxed) if scale else boxed
        zero = jnp.zeros((), jnp.float32)
        return State(
            step=jnp.zeros((), jnp.int32),
            params=boxed,
            opt_state=optimizer.init(networks.unbox(boxed)),
            carry=jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), carry),
            sums={name: (zero,) * 3 for name in [*terms, GRADIENT_NORM]},
        )

    return jax.jit(init)  # traced once, for its shapes and for its values


def _check_loss(name: str, found: Any) -> None:
    """Raises UserError if the loss of the objective `name` is not (terms, carry)."""
    if not isinstance(found, tuple) or isinstance(found, Term) or len(found) != 2:
        raise UserError(
            f"objective {name}: loss returns a {type(found).__name__}; it must return "
            "the pair (terms, carry), with () as the carry of an objective without one"
        )
    if not isinstance(found[0], Mapping):
        raise UserError(
            f"objective {name}: the terms of loss are a {type(found[0]).__name__}; "
            "they must be a dict: name -> Term"
        )
    for term, value in found[0].items():
        if not isinstance(value, Term) or jnp.shape(value.total) != ():
            raise UserError(
                f"objective {name}: loss returns {term!r} as {value!r:.60}; a term "
                "must be a Term of two sums, its total and its weight"
            )


def zero_batch(
    batch_spec: dict[str, ArraySpec], batch_size: int
) -> dict[str, jax.Array]:
    """A batch of zeros: arrays [batch_size, ...] of an objective's batch spec."""
    return {
        name: jnp.zeros((batch_size, *spec.shape), spec.dtype)
        for name, spec in batch_spec.items()
    }


def state_shardings(boxed: State, optimizer: Any, mesh: Mesh) -> State:
    """The sharding of each leaf of the state; `boxed` is the abstract state.

    A leaf of the optimizer's state has its parameter's sharding if their shapes agree,
    else it is replicated (AdaFactor's rows and columns). Parameters without moments
    have no leaf in it.
    """

    def opt_sharding(
        leaf: jax.ShapeDtypeStruct | optax.MaskedNode,
        param: jax.ShapeDtypeStruct,
        own: jax.sharding.Sharding,
    ) -> jax.sharding.Sharding | optax.MaskedNode:
        if isinstance(leaf, optax.MaskedNode):
            return leaf
        return own if leaf.shape == param.shape else replicated

    replicated = sharding.replicated(mesh)
    shapes = networks.unbox(boxed.params)
    params = jax.tree.map(
        lambda names, leaf: sharding.parameter_sharding(names, leaf.shape, mesh),
        networks.logical_axes(boxed.params),
        shapes,
        is_leaf=sharding.is_logical_axes,
    )
    opt_state = optax.tree.map_params(
        optimizer,
        opt_sharding,
        boxed.opt_state,
        shapes,
        params,
        transform_non_params=lambda _: replicated,
        is_leaf=lambda leaf: isinstance(leaf, optax.MaskedNode),
    )
    return State(
        step=replicated,  # type: ignore[arg-type]
        params=params,
        opt_state=opt_state,
        carry=jax.tree.map(lambda _: sharding.batch_sharding(mesh), boxed.carry),
        sums=jax.tree.map(lambda _: replicated, boxed.sums),
    )


def initial_state(program: Program, seed: int) -> State:
    """The state before step 0, sharded over the devices of all processes."""
    replicated = sharding.replicated(program.mesh)
    return program.init(
        jax.jit(lambda: jax.random.key(seed), out_shardings=replicated)()
    )


def first_state(program: Program, config: Config) -> State:
    """`initial_state`, with the parameters of train.init_from if it is set.

    The optimizer's state is then initialized from these: pruning keeps weights in it.
    """
    state = initial_state(program, config.seed)
    if not config.train.init_from:
        return state
    state = state._replace(opt_state=None)  # frees its memory
    from research.interop.partial_restore import restore_params, source_digest

    processes.assert_equal_across_hosts(
        **{"train.init_from": source_digest(config.train.init_from)}
    )
    params, _ = restore_params(
        config.train.init_from,
        config.train.init_scope,
        state.params,
        layers=config.train.init_layers,
        of_vocabulary=program.of_vocabulary,
        **program.data.vocabulary_facts,
    )
    return state._replace(params=params, opt_state=program.init_optimizer(params))


def label_facts(program: Program) -> dict[str, list[str]]:
    """What a checkpoint records about a task's labels.

    labels: `label_names`; text_labels: the labels for reading new text.
    """
    name, found = program.objective.predicts, program.data.vocab.labels
    read = prediction_kind(name).text_labels(found) if name else ()
    return {"labels": label_names(program), "text_labels": [*read]}


def label_names(program: Program) -> list[str]:
    """The names of a task head's values: classes or tags; [] for other heads."""
    name, labels = program.objective.predicts, program.data.vocab.labels
    return [*prediction_kind(name).output_names(labels)] if name else []


def count_parameters(params: Any) -> int:
    """The number of scalars in a tree of parameters."""
    return sum(leaf.size for leaf in jax.tree.leaves(params))


def train_batches(program: Program, start: int, stop: int) -> Generator[Batch]:
    """The batches of steps start to stop, prefetched to the devices."""
    rows = sharding.rows_of_process(program.abstract_batch)
    host_batches = program.data.train.batches(start, rows, stop)
    return _prefetch_to_devices(program, host_batches)


def eval_batches(program: Program) -> Iterator[Batch]:
    """Batches with each example of the evaluation split once; the last is padded."""
    rows = sharding.rows_of_process(program.abstract_batch)
    return _prefetch_to_devices(program, program.data.eval.evaluation(rows))


def _prefetch_to_devices(
    program: Program, host_batches: Iterator[Batch]
) -> Generator[Batch]:
    """The batches with their rows on the devices, and with the constants."""
    like, constants = program.abstract_batch, program.constants.arrays
    return prefetch(
        sharding.to_devices(batch, like) | constants for batch in host_batches
    )


def make_eval_zeros(program: Program) -> Callable[[], tuple[Any, Any]]:
    """A function that makes the initial sums and carry of an evaluation."""
    start = program.abstract_eval_sums, program.abstract_eval_carry

    def zeros() -> tuple[Any, Any]:
        return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), start)

    return jax.jit(zeros, out_shardings=jax.tree.map(lambda x: x.sharding, start))
