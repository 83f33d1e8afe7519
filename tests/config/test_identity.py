"""A config keeps its identity when keys are added; a changed value still changes it."""

import copy
import dataclasses
import json

import pytest
from etils import epath

from launch.config import load_config
from launch.sweeps.sweep_plan import trial_id
from research.config import identity, sections
from research.contract import fields
from research.contract.errors import UserError
from research.contract.parts import default_of, section_fields
from research.record.workdir import CHANGEABLE_KEYS, check_same_config, config_digest

CONFIG = load_config("experiments/bert.py:tiny").values


@pytest.fixture
def content(tmp_path):
    """The content of a config.json."""
    identity.write_run_config(epath.Path(tmp_path), CONFIG)
    return json.loads((tmp_path / identity.CONFIG_FILE).read_text())


@pytest.mark.parametrize(
    ("section", "choice", "part"),
    [
        (section, choice, part)
        for section, choice, folder in sections.choices()
        for part in folder.names()
    ],
)
def test_a_config_and_its_file_have_one_digest(section, choice, part):
    """With the defaults of each part, as of theseus, whose rate is pairs."""
    given = {f"{sections.dotted(section)}{choice}": part}
    keys = identity.default_values(given) | given
    config = {}
    for key, value in keys.items():
        name, _, own = key.rpartition(".")
        (config.setdefault(name, {}) if name else config)[own] = value
    fields = section_fields(sections.SECTIONS[section], {choice: part}, "")
    defaults = {name: default_of(field) for name, field in fields.items()}
    own = config[section] if section else config
    own |= {name: defaults[name] for name in defaults.keys() - {choice}}
    assert config_digest(config) == config_digest(json.loads(json.dumps(config)))


@pytest.mark.parametrize("name", sections.SECTIONS)
def test_an_added_key_changes_the_identity_only_where_it_differs(
    name, content, monkeypatch
):
    digest, trial = config_digest(CONFIG), trial_id(identity.flatten(CONFIG))

    @dataclasses.dataclass(frozen=True)
    class Longer(sections.SECTIONS[name]):
        added_key: float = fields.number(0.5, least=0)

    monkeypatch.setitem(sections.SECTIONS, name, Longer)
    key = f"{sections.dotted(name)}added_key"
    completed = identity.complete_config(content, "config.json")
    section = completed[name] if name else completed
    assert section["added_key"] == 0.5
    assert trial_id(identity.flatten(completed)) == trial
    assert config_digest(completed) == digest
    check_same_config(epath.Path("run"), content, completed)
    section["added_key"] = 0.25
    assert trial_id(identity.flatten(completed)) != trial
    assert config_digest(completed) != digest
    with pytest.raises(UserError, match=rf"{key} is .* there and 0\.25 now"):
        check_same_config(epath.Path("run"), content, completed)


@pytest.mark.parametrize("key", sorted(identity.default_values({})))
def test_a_changed_value_of_any_key_changes_the_identity(key):
    config = copy.deepcopy(CONFIG)
    name, _, own = key.rpartition(".")
    folder = next((f for s, k, f in sections.choices() if (s, k) == (name, own)), None)
    if folder:
        pytest.skip("another part has other keys: see the configs of each objective")
    (config[name] if name else config)[own] = "another"
    assert (config_digest(config) != config_digest(CONFIG)) == (
        key not in CHANGEABLE_KEYS
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"format": "0.1"},
            r"must have format '0\.2', got '0\.1'.* train the run again",
        ),
        ({"format": None}, r"got None"),
        ({"data": 3}, r"data is missing"),
        ({"model": {"wdith": 3}}, r"another version: .*'model\.wdith'.*model\.width"),
        ({"model": {"network": "x"}}, r"another version: .*model\.network"),
    ],
)
def test_what_this_version_did_not_write_is_refused(content, change, words):
    for key, value in change.items():
        content[key] = content[key] | value if isinstance(value, dict) else value
    with pytest.raises(UserError, match=rf"run/config\.json.*{words}"):
        identity.complete_config(content, "run/config.json")


def test_a_run_with_the_earlier_key_of_trackers_goes_on(content):
    train = dict(content["train"])
    del train["track"]
    for project, track in (("", ""), ("mine", "wandb:mine")):
        earlier = content | {"train": train | {"wandb": project}}
        completed = identity.complete_config(earlier, "config.json")
        assert completed["train"] == content["train"] | {"track": track}
