"""A config keeps its identity when keys are added; a changed value still changes it."""

import dataclasses
import gzip
import json
from pathlib import Path

import pytest
from ml_collections import ConfigDict

from launch.config_values import flatten
from launch.sweeps.sweep_plan import trial_id
from research.config import identity, sections
from research.contract import fields
from research.contract.errors import UserError
from research.contract.parts import default_of, section_fields
from research.record.workdir import CHANGEABLE_KEYS, check_same_config, config_digest

GOLDENS = Path(__file__).parents[1] / "goldens" / "runs"
CONFIGS = json.loads(gzip.decompress((GOLDENS / "first_configs.json.gz").read_bytes()))


def _flat(content):
    """The flat config of a trial, of the content of config.json."""
    return flatten(ConfigDict(content, allow_dotted_keys=True))


def _add_key(monkeypatch, name):
    """Adds a key to a section, as a later version might."""

    @dataclasses.dataclass
    class Longer(sections.SECTIONS[name]):
        added_key: float = fields.number(0.5, least=0)

    monkeypatch.setitem(sections.SECTIONS, name, Longer)


@pytest.mark.parametrize("spec", CONFIGS)
def test_configs_of_an_earlier_version_keep_their_ids_and_digests(spec):
    config = CONFIGS[spec]["config"]
    assert trial_id(_flat(config)) == CONFIGS[spec]["id"]
    assert config_digest(config) == CONFIGS[spec]["digest"]
    completed = identity.complete_config(config, "config.json")
    assert trial_id(_flat(completed)) == CONFIGS[spec]["id"]
    assert config_digest(completed) == CONFIGS[spec]["digest"]


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
    keys = identity.neutral_values(given) | given
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
def test_an_added_key_changes_the_identity_only_where_it_differs(name, monkeypatch):
    _add_key(monkeypatch, name)
    key = f"{sections.dotted(name)}added_key"
    for case in CONFIGS.values():
        completed = identity.complete_config(case["config"], "config.json")
        section = completed[name] if name else completed
        assert section["added_key"] == 0.5
        assert trial_id(_flat(completed)) == case["id"]
        assert config_digest(completed) == case["digest"]
        check_same_config(Path("run"), case["config"], completed)
        section["added_key"] = 0.25
        assert trial_id(_flat(completed)) != case["id"]
        assert config_digest(completed) != case["digest"]
        with pytest.raises(UserError, match=rf"{key} is .* there and 0\.25 now"):
            check_same_config(Path("run"), case["config"], completed)


@pytest.mark.parametrize("key", sorted(identity.neutral_values({})))
def test_a_changed_value_of_any_key_changes_the_identity(key):
    config = identity.complete_config(next(iter(CONFIGS.values()))["config"], "")
    before = config_digest(config)
    name, _, own = key.rpartition(".")
    folder = next((f for s, k, f in sections.choices() if (s, k) == (name, own)), None)
    if folder:
        pytest.skip("another part has other keys: see the configs of each objective")
    (config[name] if name else config)[own] = "another"
    assert (config_digest(config) != before) == (key not in CHANGEABLE_KEYS)


def _of_lstm(**keys):
    """The content of a config.json, in which an LSTM teaches another one."""
    content = json.loads(json.dumps(next(iter(CONFIGS.values()))["config"]))
    content["model"] = {"network": "lstm", **keys}
    content["objective"] = {"name": "distill", "teacher": "run"}
    content["objective"]["teacher_model"] = {"network": "lstm", **keys}
    return content


def test_dropout_between_layers_of_an_lstm_is_read_by_its_earlier_name():
    earlier = _of_lstm(layer_dropout=0.25)
    completed = identity.complete_config(earlier, "config.json")
    assert completed["model"]["hidden_dropout"] == 0.25
    assert "layer_dropout" not in completed["model"]
    assert completed["objective"]["teacher_model"]["hidden_dropout"] == 0.25
    assert identity.identity(_flat(earlier))["model.layer_dropout"] == 0.25
    assert trial_id(_flat(completed)) == trial_id(_flat(earlier))
    assert config_digest(completed) == config_digest(earlier)
    check_same_config(Path("run"), earlier, completed)
    other = identity.complete_config(_of_lstm(layer_dropout=0.5), "config.json")
    assert trial_id(_flat(other)) != trial_id(_flat(completed))
    without = identity.complete_config(_of_lstm(), "config.json")
    assert without["model"]["hidden_dropout"] == -1
    assert "model.layer_dropout" not in identity.identity(_flat(without))


def test_layerdrop_of_a_transformer_keeps_its_name():
    content = json.loads(json.dumps(next(iter(CONFIGS.values()))["config"]))
    content["model"]["layer_dropout"] = 0.25
    completed = identity.complete_config(content, "config.json")
    assert completed["model"]["layer_dropout"] == 0.25
    assert identity.identity(_flat(completed))["model.layer_dropout"] == 0.25


def test_the_former_default_of_a_table_is_not_in_ids():
    content = json.loads(json.dumps(next(iter(CONFIGS.values()))["config"]))
    for bound, in_identity in ((0.25, False), (0.0, True)):
        content["model"] = {"network": "word_cnn", "table_range": bound}
        assert ("model.table_range" in identity.identity(_flat(content))) == in_identity


def test_a_key_that_is_not_known_is_refused_by_name():
    config = json.loads(json.dumps(next(iter(CONFIGS.values()))["config"]))
    config["model"]["wdith"] = 3
    words = r"run/config\.json is of another version: .*'model\.wdith'.*model\.width"
    with pytest.raises(UserError, match=words):
        identity.complete_config(config, "run/config.json")


def test_a_default_may_change_while_its_neutral_value_stays(monkeypatch):
    @dataclasses.dataclass
    class Changed(sections.Train):
        added_key: float = dataclasses.field(default=0.7, metadata={"neutral": 0.5})

    monkeypatch.setitem(sections.SECTIONS, "train", Changed)
    for case in CONFIGS.values():
        completed = identity.complete_config(case["config"], "config.json")
        assert completed["train"]["added_key"] == 0.5
        assert config_digest(completed) == case["digest"]
        completed["train"]["added_key"] = 0.7
        assert config_digest(completed) != case["digest"]
