"""Config values: any keys of any experiment, with values of any type and magnitude."""

import dataclasses
import functools
import math
from pathlib import Path
from typing import Any, NamedTuple

import jax
from hypothesis import strategies as st

from launch import cli, config
from launch.measure.placeholder_vocab import placeholder_vocab
from research import objectives
from research.config import sections
from research.config.config import Config
from research.contract import parts
from research.program.setup import build_program
from tests.proofs.fuzz import command, values

ROOT = Path(__file__).parents[3]
EXPERIMENTS = sorted(
    str(path.relative_to(ROOT)) for path in (ROOT / "experiments").glob("[!_]*.py")
)
SMALL = {
    "data.length": 32,
    "data.vocabulary_size": 512,
    "data.sentinels": 40,
    "model.layers": 1,
    "model.width": 16,
    "model.heads": 2,
    "model.feedforward": 16,
    "model.max_length": 64,
    "model.embedding_width": 0,
    "train.batch": 4,
}
"""So that a network takes little time; a case may override these."""

KEYS = {
    sections.dotted(name) + key: field
    for name in sections.SECTIONS.keys() - {"objective"}
    for key, field in parts.section_fields(sections.SECTIONS[name], {}).items()
}
UNKNOWN_KEYS = ("train.step", "x", "", ".", "train", "data.mixture.a", "objective.x")


class ConfigCase(NamedTuple):
    """An experiment, and what is written after `--config.`."""

    experiment: str
    overrides: dict[str, str]
    builds: bool  # the network, too


@functools.cache
def keys_of(objective: str) -> dict[str, Any]:
    """Key -> field, of a config with this objective."""
    own = dataclasses.fields(objectives.objective_class(objective))
    return KEYS | {f"objective.{field.name}": field for field in own}


@functools.cache
def objective_of(experiment: str) -> str:
    return config.from_file(str(ROOT / experiment)).objective.name


@st.composite
def cases(draw: st.DrawFn) -> ConfigCase:
    experiment = draw(st.sampled_from(EXPERIMENTS))
    overrides, name = {}, objective_of(experiment)
    if draw(st.booleans()):
        name = draw(st.sampled_from(objectives.names()))
        overrides["objective.name"] = name
    keys = keys_of(name)
    own = [key for key in keys if key.startswith("objective.")]
    groups = [st.sampled_from(list(keys)), st.sampled_from(own or ["seed"])]
    for key in draw(st.lists(st.one_of(groups), min_size=1, max_size=3)):
        overrides[key] = draw(values.value_of(keys[key]))
    if draw(st.integers(0, 19)) == 19:
        overrides[draw(st.sampled_from(UNKNOWN_KEYS))] = draw(values.anything)
    return ConfigCase(experiment, overrides, draw(st.integers(0, 3)) == 3)


def check(case: ConfigCase, folder: Path) -> command.Outcome:
    """Loads the config; it is legal, or refused in one line that names a key.

    That key is one of the case, or one that does not go with it.
    """
    argv = [f"--config.{k}={v}" for k, v in {**SMALL, **case.overrides}.items()]
    loaded = []

    def run(args: Any) -> None:
        loaded.append(config.load_config(str(ROOT / case.experiment), args.overrides))
        if case.builds:
            vocab = placeholder_vocab(loaded[0])
            build_program(Config.of(loaded[0]), jax.devices()[:1], vocab=vocab)

    outcome = command.run_function(
        lambda leave: cli.main(run, cli.Parser(""), argv, leave=leave)
    )
    chosen = case.overrides.get("objective.name", objective_of(case.experiment))
    own = keys_of(chosen) if chosen in objectives.names() else ()
    names = {*KEYS, "objective.name", *own}
    if case.overrides.keys() & {"objective.parts", "objective.base_objective"}:
        names.add("part")
    names |= {name for key in case.overrides for name in (key, key.split(".")[-1])}
    problem = command.complaint(outcome, names)
    if not problem and loaded:
        problem = "; ".join(illegal(loaded[0], case.overrides))
    assert not problem, f"{problem}\n{case}"
    return outcome


def illegal(loaded: Any, overrides: dict[str, str]) -> list[str]:
    """The keys of a config whose value is not legal, or not the one that was written.

    This is written anew, so that a mistake in `research.contract.fields` is found.
    """
    flat, wrong = loaded.flat, []
    declared = {
        sections.dotted(name) + key: field
        for name, section in sections.SECTIONS.items()
        for key, field in parts.section_fields(
            section, loaded.values[name] if name else {}
        ).items()
    }
    for key, field in declared.items():
        value = flat[key]
        metadata, kind = field.metadata, type(field.default)
        legal = kind not in (bool, int, float, str) or type(value) is kind
        if legal and "values" in metadata:
            legal = value in metadata["values"]
        if legal and "bounds" in metadata:
            bounds = {"least": -math.inf, "most": math.inf} | metadata["bounds"]
            legal = bounds["least"] <= value <= bounds["most"] and math.isfinite(value)
            legal &= value > bounds.get("above", -math.inf)
            legal &= value < bounds.get("below", math.inf)
            legal &= kind is float or value < max(2**31, bounds["most"] + 1)
        if key == "data.mixture":
            rates = [rate for rate in value.values() if type(rate) in (int, float)]
            legal = all(0 < rate < math.inf for rate in rates) and len(rates) == len(
                value
            )
        text = overrides.get(key)
        if legal and text is not None and kind in (int, float, str):
            legal = value == kind(text)
        if not legal:
            wrong.append(f"{key}={value!r} was accepted")
    return wrong
