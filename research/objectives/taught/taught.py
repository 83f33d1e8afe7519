"""An objective that wraps another one and adds a frozen teacher."""

import dataclasses
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from research import networks
from research.contract.batch import (
    CONSTANTS,
    ArraySpec,
    ConstantSpec,
    VocabInfo,
)
from research.contract.errors import UserError, unknown
from research.contract.fields import choice, free_text, model_of
from research.objectives.combined import composite, wrapped


@dataclass(frozen=True)
class Taught(wrapped.Wrapped):
    """Hides text as the base objective does; the teacher's parameters are constants."""

    teacher: str = free_text(
        "", source="run", needed="a run's workdir, or hf:DIR"
    )  # a workdir, a checkpoint, or hf:DIR
    teacher_model: tuple[Any, ...] = model_of("teacher")  # the teacher's keys of
    # model; by default those of its run, or of the folder's config.json
    teacher_dtype: str = choice("float32", ("float32", "bfloat16"))  # of its parameters

    def __post_init__(self) -> None:
        super().__post_init__()
        fields = composite.parse_fields(self.teacher_model, "teacher_model")
        object.__setattr__(self, "teacher_model", fields)
        self._teacher  # noqa: B018 (raises what is wrong with its fields)

    @functools.cached_property
    def _teacher(self) -> networks.Network:
        keys = {"network": "transformer", **dict(self.teacher_model)}
        try:
            kind = networks.FOLDER.part_class(keys["network"], "network")
            known = ["network", *(field.name for field in dataclasses.fields(kind))]
            for key in keys:
                if key not in known:
                    raise unknown("key of model", key, known)
            return networks.from_config(keys)
        except (TypeError, ValueError) as error:
            raise UserError(f"objective.teacher_model: {error}") from error

    def _teacher_constants(
        self, needs: networks.Needs, vocab: VocabInfo, loss: Callable[..., Any]
    ) -> dict[str, ConstantSpec]:
        """The teacher's parameters and the constants of the base objective.

        They are the parameters that `loss(net, batch, key)` reads; both networks read
        the constants.

        Raises:
          UserError: the teacher's network does not meet `needs`.
        """
        network = networks.build(self._teacher, needs, vocab)
        specs = self.batch_spec(self.min_length) | {"example": ArraySpec(())}
        dtype, constants = jnp.dtype(self.teacher_dtype), self._base.constants(vocab)
        shapes = {name: networks.unbox(own.arrays) for name, own in constants.items()}

        def params(key: jax.Array) -> Any:
            batch = {n: jnp.zeros((1, *s.shape), s.dtype) for n, s in specs.items()}
            batch[CONSTANTS] = jax.tree.map(
                lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes
            )
            return networks.init(network, lambda net: loss(net, batch, key), key)

        arrays = jax.eval_shape(lambda: params(jax.random.key(0)))
        arrays = jax.tree.map(
            lambda leaf: jax.ShapeDtypeStruct(leaf.shape, dtype), arrays
        )
        return {**constants, "teacher": ConstantSpec(self.teacher, arrays)}

    def _teacher_of(self, net: networks.BoundNetwork) -> Any:
        """The teacher's network, computed like the student's (in its dtype, ...)."""
        own, student = self._teacher, net.options
        if type(own) is not type(student):
            raise UserError(
                f"the teacher's network is {own.name}, but model.network is "
                f"{student.name}; they must be the same for distillation"
            )
        computed = {key: getattr(student, key) for key in own.computation_keys}
        return networks.with_options(net, dataclasses.replace(own, **computed))
