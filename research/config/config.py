"""The config of a run as frozen, typed sections, which all code below reads.

Experiments, flags and overrides are a ConfigDict (`research.config.base`,
`launch.config`); `Config.of` turns it into sections once, and checks it.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from research import networks, objectives
from research.config.objective import make_run_objective
from research.config.sections import SECTIONS, TrainOptions, dotted
from research.contract.parts import make_section
from research.data.options import DataOptions
from research.distributed.options import MeshOptions
from research.optimize.options import OptimizerOptions


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """A config whose values are legal and fit each other.

    Attributes:
      objective: on packed rows if data.packing is not none.
      values: section -> key -> value, plain data: the content of config.json.
    """

    seed: int
    data: DataOptions
    objective: objectives.Objective
    model: networks.Network
    optimizer: OptimizerOptions
    mesh: MeshOptions
    train: TrainOptions
    values: Mapping[str, Any] = dataclasses.field(repr=False)

    @classmethod
    def of(cls, values: Any) -> "Config":
        """The typed form of a config with all keys.

        Args:
          values: a ConfigDict or the content of config.json; a Config is returned.

        Raises:
          UserError: a value is not legal, or does not fit another one.
        """
        if isinstance(values, Config):
            return values
        values = values.to_dict() if hasattr(values, "to_dict") else dict(values)
        sections = {
            name: make_section(section, _of_section(name, values), dotted(name))
            for name, section in SECTIONS.items()
            if name != "objective"
        }
        data = sections["data"]
        return cls(
            seed=sections[""].seed,
            data=data,
            objective=make_run_objective(values["objective"], data),
            model=sections["model"].chosen,
            optimizer=sections["optimizer"],
            mesh=sections["mesh"],
            train=sections["train"],
            values=values,
        )

    @property
    def objective_name(self) -> str:
        """The config's objective.name."""
        return self.values["objective"]["name"]

    @property
    def flat(self) -> dict[str, Any]:
        """Dotted key -> value; a section whose keys the user names is one dict."""
        flat: dict[str, Any] = {}
        for name in SECTIONS:
            section = _of_section(name, self.values)
            flat |= {f"{dotted(name)}{key}": value for key, value in section.items()}
        return flat

    def with_values(self, changes: Mapping[str, Any]) -> "Config":
        """A copy of the config with changed values.

        Args:
          changes: dotted key -> value; the keys must exist.

        Raises:
          UserError: a value is not legal, or does not fit another one.
        """
        values = {
            name: dict(section) if isinstance(section, Mapping) else section
            for name, section in self.values.items()
        }
        for key, value in changes.items():
            section, _, name = key.rpartition(".")
            (values[section] if section else values)[name] = value
        return Config.of(values)


def _of_section(name: str, values: Mapping[str, Any]) -> Mapping[str, Any]:
    """The values of a section; for "", those outside all sections."""
    return values[name] if name else {k: values[k] for k in values if k not in SECTIONS}
