"""Objectives made of others, and the named, scheduled parts of `joint` and `mix`."""

# B batch, S entries of a schedule

import abc
import dataclasses
import functools
import itertools
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from research import networks, objectives
from research.contract.batch import (
    CONSTANTS,
    ArraySpec,
    Batch,
    ConstantSpec,
    Example,
    VocabInfo,
)
from research.contract.errors import UserError
from research.data.documents import ArrayType
from research.data.options import DataOptions
from research.data.rows import TextSpec
from research.objectives.combined import shared_input
from research.objectives.layout.specials import Specials

Fields = tuple[tuple[str, Any], ...]
"""Names and hashable values of a part's fields, sorted by name."""

Schedule = tuple[tuple[int, float], ...]
"""Pairs (step, value), sorted by step."""


class Composite(objectives.Objective):
    """An objective made of others, its members, which train one network.

    It offers the optional abilities of its members under their names, such as the score
    method NAME.METHOD. A single member has the name "", and no prefix is added.
    """

    can_be_wrapped: ClassVar[bool] = False
    """Whether `wrapped.Wrapped` may have it as its base; else its members can be."""

    @property
    @abc.abstractmethod
    def members(self) -> Mapping[str, objectives.Objective]:
        """The objectives by name."""

    @property
    def pattern(self) -> str:
        """The pattern of all members; "general" if they differ."""
        patterns = {member.pattern for member in self.members.values()}
        return patterns.pop() if len(patterns) == 1 else "general"

    @property
    def shown_answers(self) -> dict[str, str]:
        each = (member.shown_answers for member in self.members.values())
        return dict(itertools.chain.from_iterable(shown.items() for shown in each))

    @property
    def token_terms(self) -> tuple[str, ...]:
        each = (member.token_terms for member in self.members.values())
        return tuple(dict.fromkeys(itertools.chain.from_iterable(each)))

    @property
    def array_types(self) -> dict[str, ArrayType]:
        each = (member.array_types for member in self.members.values())
        return dict(itertools.chain.from_iterable(given.items() for given in each))

    @property
    def supports_accumulation(self) -> bool:
        return all(member.supports_accumulation for member in self.members.values())

    @property
    def reads_separators(self) -> bool:
        return any(member.reads_separators for member in self.members.values())

    @property
    def appends_queries(self) -> bool:
        return any(member.appends_queries for member in self.members.values())

    @property
    def reads_backward(self) -> bool:
        return all(member.reads_backward for member in self.members.values())

    @property
    def reads_step(self) -> bool:
        return any(member.reads_step for member in self.members.values())

    @property
    def reads_corpus(self) -> bool:
        return any(member.reads_corpus for member in self.members.values())

    @property
    def lexicon_lines(self) -> str:
        return next(filter(None, (m.lexicon_lines for m in self.members.values())), "")

    def check_corpora(self, num: int) -> None:
        for member in self.members.values():
            member.check_corpora(num)

    def check_files(self, files: Iterable[Path]) -> None:
        for member in self.members.values():
            member.check_files(files)

    @property
    def fills_masks(self) -> bool:
        return any(member.fills_masks for member in self.members.values())

    @property
    def min_length(self) -> int:
        return max(member.min_length for member in self.members.values())

    def num_sentinels(self, length: int) -> int:
        return max(member.num_sentinels(length) for member in self.members.values())

    def text_spec(self, length: int) -> TextSpec:
        """Raises UserError: no text serves all members, see `common_text_spec`."""
        return shared_input.common_text_spec(self.members, length)

    def needs(self, vocab: VocabInfo) -> networks.Needs:
        """Raises UserError: the members cannot train one network."""
        return networks.merge_needs(
            [each.needs(vocab) for each in self.members.values()]
        )

    def rated_pairs(self, data: DataOptions) -> objectives.RatedPairs | None:
        """The pairs of the first member that has some."""
        each = (member.rated_pairs(data) for member in self.members.values())
        return next(filter(None, each), None)

    def constants(self, vocab: VocabInfo) -> Mapping[str, ConstantSpec]:
        return {
            _qualified(name, own): spec
            for name, member in self.members.items()
            for own, spec in member.constants(vocab).items()
        }

    def outputs(self, net: networks.BoundNetwork, batch: Batch, key: jax.Array) -> Any:
        """The outputs of the first member, whose arrays the batch has."""
        first, *_ = self.members.values()
        return first.outputs(net, batch, key)

    def token_predictor(self, net: networks.BoundNetwork) -> Any:
        """The predictor of the first member that fills masks, else of the first."""
        asked = min(self.members.values(), key=lambda member: not member.fills_masks)
        return asked.token_predictor(net)

    def text_encoder(self, net: networks.BoundNetwork) -> Any:
        return next(iter(self.members.values())).text_encoder(net)

    def specials(self, vocab: VocabInfo) -> Specials:
        """The specials of the first member whose rows are not causal, if any."""
        members = self.members.values()
        read = min(members, key=lambda member: member.pattern == "causal")
        return read.specials(vocab)

    @property
    def score_methods(self) -> dict[str, str]:
        return {
            _qualified(name, method): meaning
            for name, member in self.members.items()
            for method, meaning in member.score_methods.items()
        }

    def scored_part(self, method: str) -> tuple[objectives.Objective, str]:
        parts = {
            _qualified(name, own): (member, own)
            for name, member in self.members.items()
            for own in member.score_methods
        }
        member, own = parts[method]
        return member.scored_part(own)

    @property
    def writers(self) -> dict[str, objectives.Objective]:
        return {
            _qualified(name, part): writer
            for name, member in self.members.items()
            for part, writer in member.writers.items()
        }


def _qualified(name: str, own: str) -> str:
    return ".".join(filter(None, (name, own)))


class Parts(NamedTuple):
    """The parts of `joint` or `mix`, by name."""

    members: dict[str, objectives.Objective]
    schedules: dict[str, Schedule]  # each part's weight or mixing rate by step


class OfParts(Composite):
    """An objective made of named parts, its field `parts`, each with a schedule."""

    parts: tuple[tuple[str, Fields], ...]

    @property
    @abc.abstractmethod
    def _parts(self) -> Parts:
        """The parsed field `parts`."""

    @functools.cached_property
    def members(self) -> dict[str, objectives.Objective]:
        return self._parts.members

    @functools.cached_property
    def schedules(self) -> dict[str, Schedule]:
        """The weight or mixing rate of each part by step."""
        return self._parts.schedules

    @property
    def reads_step(self) -> bool:
        return any(map(varies, self.schedules.values())) or super().reads_step

    def part_batch(self, name: str, batch: Mapping[str, Any]) -> dict[str, Any]:
        """The arrays of one part under their names in it, its carry and constants."""
        prefix, carry = f"{name}_", batch.get("carry")
        arrays = {
            k.removeprefix(prefix): v for k, v in batch.items() if k.startswith(prefix)
        }
        own_carry = carry if carry is None else dict(carry).get(name, ())
        constants = {
            own.removeprefix(f"{name}."): value
            for own, value in batch.get(CONSTANTS, {}).items()
            if own.startswith(f"{name}.")
        }
        arrays |= {CONSTANTS: constants} if constants else {}
        return arrays | {"example": batch["example"], "carry": own_carry}

    def for_evaluation(self) -> "OfParts":
        """The objective with its parts as in evaluations."""
        parts = {
            name: evaluated_fields(fields, self.members[name])
            for name, fields in self.parts
        }
        return self.with_fields(parts=parts)


def corrupt_part(
    part: Any,
    example: Example,
    base: TextSpec,
    key: np.ndarray,
    vocab: VocabInfo,
    length: int,
) -> dict[str, np.ndarray]:
    """The batch of one part's objective from an example of the common text `base`."""
    spec = part.text_spec(length)
    text = shared_input.derive_example(example, base, spec, vocab.pad_id)
    return part.corrupt(text, key, vocab, length)


def parse_fields(fields: Any, name: str) -> Fields:
    """Fields as hashable pairs, sorted by name.

    Args:
      fields: a mapping, or pairs of names and values.
      name: of the field that holds them, for the error.

    Raises:
      ValueError: they are neither.
    """
    try:
        return _freeze(dict(_items(fields)))
    except (TypeError, ValueError) as error:
        raise ValueError(f'{name} maps names to values, {{"field": 1}}') from error


def parse_parts(parts: Any) -> tuple[tuple[str, Fields], ...]:
    """The parts as hashable pairs, sorted by name.

    Args:
      parts: name -> fields, as mappings or as pairs of names and values.

    Raises:
      ValueError: they are neither.
    """
    try:
        return _freeze({name: dict(_items(fields)) for name, fields in _items(parts)})
    except (TypeError, ValueError) as error:
        raise ValueError('parts map names to fields, {"name": {"field": 1}}') from error


def _freeze(value: Any) -> Any:
    """The value in hashable form: mappings as sorted pairs, and lists, as tuples."""
    if hasattr(value, "items"):
        return tuple(sorted((str(key), _freeze(item)) for key, item in value.items()))
    if isinstance(value, list | tuple):
        return tuple(map(_freeze, value))
    return value


def _items(mapping: Any) -> Iterable[tuple[Any, Any]]:
    """The pairs of a mapping; pairs are returned as they are."""
    return mapping.items() if hasattr(mapping, "items") else mapping


def make_parts(
    parts: tuple[tuple[str, Fields], ...],
    *,
    schedule_key: str,
    base_objective: str | None = None,
) -> Parts:
    """The parts' objectives and schedules.

    Args:
      parts: the result of `parse_parts`.
      schedule_key: the field of a part with its schedule; 1 if it is not set.
      base_objective: the objective of all parts; None: each part's own field
        `objective`, by default the part's name.

    Raises:
      UserError: an objective or field is unknown, or a value is not legal; names the
        part.
      ValueError: a schedule is invalid, or a part is another objective in evaluations;
        names the part.
    """
    made, schedules = {}, {}
    for name, pairs in parts:
        fields = dict(pairs)
        value = fields.pop(schedule_key, 1.0)
        objective = base_objective or fields.pop("objective", name)
        made[name] = part = _make_part(name, objective, fields)
        if type(part.for_evaluation()) is not type(part):
            key = "base_objective" if base_objective else "objective"
            raise ValueError(
                f"part {name!r} ({key} {objective}) cannot have other mems, or be "
                "another objective, in an evaluation"
            )
        schedules[name] = parse_schedule(value, f"{schedule_key} of part {name!r}")
    return Parts(made, schedules)


def evaluated_fields(fields: Fields, member: objectives.Objective) -> Fields:
    """The fields of a composite's member with their values in evaluations."""
    evaluated = member.for_evaluation()
    names = [field.name for field in dataclasses.fields(member)]
    values = {name: getattr(evaluated, name) for name in names}
    changed = {n: v for n, v in values.items() if v != getattr(member, n)}
    return _freeze(dict(fields) | changed)


def _make_part(part: str, objective: str, fields: Mapping[str, Any]) -> Any:
    try:
        return objectives.make_objective(objective, **fields)
    except UserError as error:
        raise UserError(f"part {part!r}: {error}") from error


def parse_schedule(value: Any, name: str) -> Schedule:
    """A schedule from a number, or from [[step, number], ...].

    Args:
      name: the name of the schedule, for errors.

    Raises:
      ValueError: steps do not ascend, or numbers are below 0.
    """
    points = ((0, value),) if isinstance(value, int | float) else value
    try:
        points = tuple((int(step), float(number)) for step, number in points)
        steps = [step for step, _ in points]
        valid = bool(points) and steps == sorted(set(steps)) and steps[0] >= 0
        valid &= all(0 <= number < np.inf for _, number in points)
    except (TypeError, ValueError):
        valid = False
    if not valid:
        raise ValueError(
            f"{name} must be a number of at least 0, or [[step, number], ...] with "
            f"steps that ascend, not {value!r}"
        )
    return points


def check_prefixes(names: Iterable[str]) -> None:
    """Raises ValueError: arrays of one part have the prefix of another's."""
    for name, other in itertools.permutations(names, 2):
        if other.startswith(name + "_"):
            raise ValueError(
                f"the name of part {other!r} starts with the prefix {name + '_'!r} of "
                f"part {name!r}'s arrays; rename one"
            )


def check_some(schedules: Mapping[str, Schedule], words: str) -> None:
    """Checks that piecewise constant schedules are not all 0 at some step.

    Args:
      words: the name of their values, for the error.

    Raises:
      ValueError: they are.
    """
    points = schedules.values()
    for step in sorted({0, *(step for each in points for step, _ in each)}):
        if not sum(piecewise_constant(each, step) for each in points) > 0:
            raise ValueError(f"the {words} of all parts are 0 at step {step}")


def cumulative_rates(schedules: Mapping[str, Schedule], step: np.ndarray) -> np.ndarray:
    """[B, P]: cumulative sums of the rates at each step [B]; the last is 1."""
    rates = [piecewise_constant(points, step) for points in schedules.values()]
    ends_BP = np.cumsum(np.stack(rates, axis=1), axis=1)
    return ends_BP / ends_BP[:, -1:]


def empty_batch(
    specs: Mapping[str, ArraySpec], num_rows: int, vocab: VocabInfo
) -> dict[str, np.ndarray]:
    """Arrays of pad tokens or 0, to be filled row by row."""
    return {
        name: np.full(
            (num_rows, *spec.shape),
            vocab.pad_id if name.endswith(("token", "target")) else 0,
            spec.dtype,
        )
        for name, spec in specs.items()
    }


def varies(points: Schedule) -> bool:
    """Whether a schedule has more than one value."""
    return len({value for _, value in points}) > 1


def piecewise_constant(points: Schedule, step: np.ndarray | int) -> np.ndarray:
    """[B] float64: the value of the last point at or before each step [B].

    Before the first point it is the first value.
    """
    steps, values = np.array(points).T
    return values[np.maximum(np.searchsorted(steps, step, side="right") - 1, 0)]


def piecewise_linear(points: Schedule, step: jax.Array) -> jax.Array | float:
    """The value at a step [], linear between the points, constant outside: float32."""
    if len(points) == 1:
        return points[0][1]
    steps, values = np.array(points, np.float32).T
    return jnp.interp(step.astype(jnp.float32), steps, values)
