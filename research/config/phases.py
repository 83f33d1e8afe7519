"""The phases of a run: ranges of steps in which some keys have other values.

    config.train.phases = [[0.9, {"data.length": 128}]]

trains the first nine tenths of the steps on rows of 128 tokens, the others on rows of
data.length tokens, as BERT does. [[1, {"objective.rate": 0.4}]] hides 40 % of the
tokens in training, while evaluations keep the config's rate. Parameters, optimizer
state, step and schedule carry over. The example counter is the step times the phase's
batch size, so step s reads the batch that it would read in a run with the phase's
values from the start: a function of (data, seed, step), on any number of hosts and
after a restart in any phase.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from research.config.config import Config
from research.contract.errors import UserError, unknown

PHASE_KEYS = ("data.length", "train.batch", "train.accumulate")
"""Keys that may change within a run, as may dropout rates and rates of the objective:
no parameter's shape depends on them."""


class Phase(NamedTuple):
    """Steps that share a config, with their program (see `compiled_phases`)."""

    stop: int  # the first step after the phase
    config: Config  # the run's config with the values of this phase
    program: Any = None  # `research.program.setup.Program`
    step: Any = None  # the compiled step
    costs: Any = None  # length of the batch -> cost of the step


def run_phases(config: Config) -> list[Phase]:
    """The phases of config.train.phases, followed by one with the unchanged config.

    A phase without changes has `config` itself.

    Raises:
      UserError: a phase is not [end, changes], the ends do not increase in (0, 1], a
        phase has no step, or a key cannot change, or not to that value.
    """
    phases, steps, last = [], config.train.steps, 0.0
    for end, changes in _checked_items(config.train.phases):
        if not last < end <= 1:
            raise UserError(
                "train.phases: phases must end at ascending fractions of the steps in "
                f"(0, 1], not at {last:g} and then {end:g}"
            )
        phases.append(Phase(round(end * steps), _with(config, changes)))
        last = end
    if last < 1:
        phases.append(Phase(steps, config))
    starts = [0, *(phase.stop for phase in phases[:-1])]
    for number, (start, phase) in enumerate(zip(starts, phases, strict=True), 1):
        if start == phase.stop:
            raise UserError(
                f"train.phases: phase {number} of {len(phases)} must have a step, but "
                f"begins and ends at step {start} of train.steps={steps}; give it a "
                "larger part of the steps, or more steps"
            )
    return phases


def _checked_items(items: Any) -> Iterator[tuple[float, dict[str, Any]]]:
    for item in items:
        match item:
            case [int() | float() as end, dict() as changes]:
                yield end, changes
            case _:
                raise UserError(
                    f"train.phases: {item!r} is not a phase; write [end, changes], as "
                    '[0.9, {"data.length": 128}]'
                )


def _with(config: Config, changes: dict[str, Any]) -> Config:
    """A copy of the config with the changes; the config itself if there are none."""
    if not changes:
        return config
    sections = config.values
    rates = (f"model.{key}" for key in sections["model"] if "dropout" in key)
    numbers = (
        f"objective.{key}"
        for key, value in sections["objective"].items()
        if isinstance(value, float)
    )
    legal = [*PHASE_KEYS, *rates, *numbers]
    for key in changes:
        if key not in legal:
            raise unknown("key of train.phases", key, legal)
    length = changes.get("data.length", config.data.length)
    shorter = [n for n in config.data.length_buckets if n < length]
    try:
        return config.with_values({**changes, "data.length_buckets": shorter})
    except UserError as error:
        raise UserError(f"train.phases: {error}") from error
