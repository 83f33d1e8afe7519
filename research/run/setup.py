"""A config made ready to run: data, network, mesh, and the functions of a step."""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from research import models, objectives
from research.batch import ArraySpec, VocabInfo
from research.data.pipeline import open_data, prefetch
from research.distributed import sharding
from research.errors import UserError
from research.run import flops, state
from research.run.optimizer import make_optimizer
from research.run.state import GRADIENT_NORM, State
from research.step import make_evaluate, make_step


class Program(NamedTuple):
    """What `build` makes of a config. Nothing is allocated on a device yet."""

    objective: Any
    data: Any  # vocab, train and eval pipelines, fingerprint; None without text
    mesh: Mesh
    init: Callable[[jax.Array], State]
    step: Callable[[State, dict], State]
    plain: Callable[[State, dict], State]  # the step, but that nothing is recomputed
    evaluate: Callable
    abstract: State  # shapes with shardings
    batch: dict  # likewise
    whole: list[str]  # dims that stay whole since the mesh does not divide them


def build(config: Any, devices: Any = None, vocab: VocabInfo | None = None) -> Program:
    """Everything a run needs, from shapes alone.

    Args:
      config: of the run.
      devices: of the mesh; all of jax.devices() unless given.
      vocab: if given, no text is opened: the program can be compiled but not run.

    Raises:
      UserError: a value of the config that cannot be run.
    """
    objective = objectives.make_objective(**config.objective)
    mesh = sharding.make_mesh(config.mesh, devices)
    sharding.rows_divide(mesh, config.train.batch, config.train.accumulate)
    if config.train.accumulate > 1 and not objective.supports_accumulation:
        raise UserError(
            f"train.accumulate={config.train.accumulate}: objective "
            f"{config.objective.name} compares the examples of a batch and cannot be "
            "split; set train.accumulate=1"
        )
    options = models.Options(**config.model)
    optimizer = make_optimizer(config.optimizer, config.train.steps)
    data = None if vocab else open_data(config, objective)
    vocab = vocab or data.vocab
    network = objective.network(options, vocab)
    specs = objective.batch_spec(config.data.length) | {"example": ArraySpec(())}
    init = state.initializer(objective, network, optimizer, specs, config.train.batch)
    with sharding.context(mesh):
        boxed = jax.eval_shape(lambda: init(jax.random.key(0)))
    where = state.shardings(boxed, optimizer, mesh)

    def step_of(network: Any) -> Callable:
        step = make_step(
            objective,
            network,
            optimizer,
            seed=config.seed,
            accumulate=config.train.accumulate,
            dropout=config.model.dropout > 0,
            log_every=config.train.log_every,
        )
        return jax.jit(step, donate_argnums=0, out_shardings=where)

    step = plain = step_of(network)
    if options.remat != "none":
        keeping = dataclasses.replace(options, remat="none")
        plain = step_of(objective.network(keeping, vocab))
    return Program(
        objective=objective,
        data=data,
        mesh=mesh,
        init=jax.jit(lambda key: state.unboxed(init(key)), out_shardings=where),
        step=step,
        plain=plain,
        evaluate=jax.jit(
            make_evaluate(objective, network, seed=config.seed),
            out_shardings=(sharding.replicated(mesh), where.carry),
        ),
        abstract=jax.tree.map(_placed, state.unboxed(boxed), where),
        batch=_batch(specs, config.train.batch, mesh),
        whole=sharding.whole_dims(
            models.logical_axes(boxed.params), models.unbox(boxed.params), mesh
        ),
    )


def _placed(leaf: Any, where: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=where)


def _batch(specs: dict[str, ArraySpec], size: int, mesh: Mesh) -> dict:
    """The global batch's shapes, with rows over the mesh."""
    rows = sharding.batch_sharding(mesh)
    return {
        name: jax.ShapeDtypeStruct((size, *spec.shape), spec.dtype, sharding=rows)
        for name, spec in specs.items()
    }


def tokens(config: Any) -> int:
    """Tokens of clean text a step."""
    return config.train.batch * config.data.length


def compile_step(program: Program) -> tuple[Any, flops.Cost]:
    """The step compiled from shapes, and what it costs."""
    with sharding.context(program.mesh):
        lowered = program.step.lower(program.abstract, program.batch)
        compiled = lowered.compile()
    return compiled, flops.Cost(*step_flops(program), flops.peak_bytes(compiled))


def step_flops(program: Program) -> tuple[float, float]:
    """FLOPs of a step, and those that its remat policy adds to them."""
    with sharding.context(program.mesh):
        plain = flops.count_flops(program.plain, program.abstract, program.batch)
        if program.plain is program.step:
            return plain, 0.0
        return plain, flops.count_flops(
            program.step, program.abstract, program.batch
        ) - plain


def described(program: Program, config: Any, price: flops.Cost) -> Iterator[str]:
    """What a person is told of a run before its first step."""
    mesh = " x ".join(f"{name} {size}" for name, size in program.mesh.shape.items())
    parameters = state.count(program.abstract.params)
    yield (
        f"{config.objective.name}: {parameters:,} parameters, "
        f"{price.flops / 1e9:,.1f} GFLOP a step, "
        f"{price.flops / tokens(config) / 1e6:,.1f} MFLOP a token, "
        f"{price.peak_bytes / 2**20:,.0f} MiB a device on mesh {mesh}"
    )
    counts = [f"{k} {v:,}" for k, v in program.data.counts.items() if v]
    yield f"text: {', '.join(counts)}" if counts else "text: not counted"
    for dim in program.whole:
        yield f"stays whole on every device, since it does not divide: {dim}"


def fresh(program: Program, seed: int) -> State:
    """The state before step 0, laid out over the devices of all processes."""
    whole = sharding.replicated(program.mesh)
    return program.init(jax.jit(lambda: jax.random.key(seed), out_shardings=whole)())


def place(host: dict, shape: dict) -> dict:
    """This host's rows as global arrays, in the layout of `shape`."""
    return {
        name: jax.make_array_from_process_local_data(
            leaf.sharding, np.asarray(host[name], leaf.dtype), leaf.shape
        )
        for name, leaf in shape.items()
    }


def own_rows(shape: dict, process: int | None = None) -> np.ndarray:
    """The rows of the global batch that a process feeds, ascending; this one's.

    Those of one process need not lie together: a slice's mesh follows its wires.
    """
    process = jax.process_index() if process is None else process
    leaf = next(iter(shape.values()))
    where = leaf.sharding.devices_indices_map(leaf.shape)
    rows = [
        np.arange(leaf.shape[0])[index[0]]
        for device, index in where.items()
        if device.process_index == process
    ]
    return np.unique(np.concatenate(rows))


def train_batches(program: Program, start: int, stop: int) -> Iterator[dict]:
    """The batches of steps start to stop, on the devices ahead of their use."""
    host = program.data.train.batches(start, own_rows(program.batch), stop)
    return prefetch(place(batch, program.batch) for batch in host)


def eval_zeros(program: Program) -> Callable[[], tuple[Any, Any]]:
    """A function that makes the sums and the carry that an evaluation begins with."""
    abstract = program.abstract
    sums = {k: v for k, v in abstract.sums.items() if k != GRADIENT_NORM}
    start = sums, abstract.carry

    def zeros() -> tuple[Any, Any]:
        return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), start)

    return jax.jit(zeros, out_shardings=jax.tree.map(lambda x: x.sharding, start))


def eval_batches(program: Program) -> Iterator[dict]:
    """Each example of the evaluation split once; the last batch is filled up."""
    host = program.data.eval.evaluation(own_rows(program.batch))
    return prefetch(place(batch, program.batch) for batch in host)
