"""Configs: what is given is what is read, and what is wrong is told in one line."""

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launch import config, config_values
from research import objectives
from research.config import sections
from research.contract import fields
from research.contract.errors import UserError
from research.contract.notices import report
from research.contract.parts import default_of
from research.files.json_files import digest
from research.record import trackers

MLM = "experiments/mlm.py"
VALUES = {
    bool: st.booleans(),
    float: st.floats(allow_nan=False, allow_infinity=False),
    int: st.integers(),
    str: st.text(),
    tuple: st.lists(st.integers()).map(tuple),
}


@given(data=st.data(), kind=st.sampled_from(list(VALUES)))
def test_text_reads_back_as_the_value(data, kind):
    value = data.draw(VALUES[kind])
    text = value if kind is str else json.dumps(value)
    assert config_values.convert(text, data.draw(VALUES[kind]), "key") == value
    assert type(config_values.convert(text, value, "key")) is kind


@given(data=st.data(), like=st.sampled_from([True, 1, 1.0, (1,)]))
def test_a_value_of_another_kind_is_refused(data, like):
    others = {bool: "yes", int: "1.5", float: "1,5", tuple: "a"}
    with pytest.raises(UserError, match=r"train\.key"):
        config_values.convert(others[type(like)], like, "train.key")
    strange = data.draw(st.sampled_from([None, object(), b"1", {}]))
    with pytest.raises(UserError, match=r"train\.key"):
        config_values.convert(strange, like, "train.key")


def test_every_key_can_be_overridden_by_its_own_value():
    flat = config.load_config(MLM).flat
    texts = {k: v if isinstance(v, str) else json.dumps(v) for k, v in flat.items()}
    again = config.load_config(MLM, texts)
    assert again.flat == flat


def test_digest_changes_with_every_key():
    flat = config.load_config(MLM).flat
    digests = {digest(flat | {key: "other"}) for key in flat}
    assert len(digests) == len(flat)
    assert digest(dict(reversed(flat.items()))) == digest(flat)


@pytest.mark.parametrize("name", objectives.names())
def test_another_objective_brings_its_own_fields(name):
    loaded = config.load_config(MLM, {"objective.name": name})
    section = loaded.values["objective"]
    fields = {
        field.name for field in dataclasses.fields(objectives.objective_class(name))
    }
    assert set(section) == fields | {"name"}
    assert loaded.objective == objectives.objective_class(name)()


def test_fields_of_the_file_stay_when_the_objective_stays(tmp_path):
    file = tmp_path / "half.py"
    file.write_text(
        "from experiments import mlm\n"
        "def get_config():\n"
        "    config = mlm.get_config()\n"
        "    config.objective.rate = 0.5\n"
        "    return config\n"
    )
    assert (
        config.load_config(str(file), {"objective.name": "mlm"}).objective.rate == 0.5
    )
    lm = config.load_config(str(file), {"objective.name": "lm"})
    assert "rate" not in lm.values["objective"]


def test_keys_of_the_file_that_another_objective_does_not_keep_are_told(capsys):
    """Those that it has, too, and those that it lacks; not what is given, or agrees."""
    spec = "experiments/roberta.py:tiny"

    def told(**keys):
        report.cache_clear()
        overrides = {f"objective.{key}": value for key, value in keys.items()}
        section = config.load_config(spec, overrides).values["objective"]
        return section, capsys.readouterr().err

    section, line = told(name="electra")
    assert line.count("\n") == 1 and "electra has keys of its own" in line
    assert f"that {spec} sets for mlm: " in line
    assert f"objective.format is {section['format']!r}, not 'full_sentences'" in line
    assert "there is no objective.candidates, objective.rounding" in line
    _, line = told(name="electra", format="segment_pair")
    assert "objective.format" not in line and "there is no objective.ca" in line
    assert not told(name="mlm", rate=0.3)[1]


def test_a_mixture_is_overridden_as_a_whole():
    loaded = config.load_config(MLM, ['data.mixture={"tfds:a/b": 1, "x.txt": 2.5}'])
    assert loaded.data.mixture == {"tfds:a/b": 1, "x.txt": 2.5}


def test_parts_of_an_objective_are_overridden_as_a_whole(tmp_path):
    stages = {"mixing_rate": [[0, 1.0], [100, 0.0]]}
    parts = {"first": stages, "last": {"unit": "word"}}
    text = json.dumps(parts)
    loaded = config.load_config(MLM, ["objective.name=mix", f"objective.parts={text}"])
    assert loaded.values["objective"]["parts"] == parts
    assert loaded.flat["objective.parts"] == parts
    again = config.load_config(MLM, {"objective.name": "mix", "objective.parts": parts})
    assert again.objective == loaded.objective

    file = tmp_path / "staged.py"
    file.write_text(
        "from experiments import mlm\n"
        "def get_config():\n"
        "    config = mlm.get_config()\n"
        f"    mixed = dict(name='mix', base_objective='mlm', parts={parts})\n"
        "    config.objective = mixed\n"
        "    return config\n"
    )
    staged = config.load_config(str(file))
    assert staged.flat == loaded.flat
    other = config.load_config(str(file), ['objective.parts={"only": {}}'])
    mixed = other.objective
    assert list(mixed.members) == ["only"]


def test_a_value_inside_an_open_section_is_overridden_alone():
    parts = {"first": {"mixing_rate": 0.5}, "last": {"unit": "word"}}
    mixed = {"objective.name": "mix", "objective.parts": parts}
    for key, text, expected in [
        ("objective.parts.first.mixing_rate", "2", {"mixing_rate": 2}),
        (
            "objective.parts.first.mixing_rate",
            "[[0, 1], [9, 2]]",
            {"mixing_rate": [[0, 1], [9, 2]]},
        ),
        ("objective.parts.first.unit", "word", {"mixing_rate": 0.5, "unit": "word"}),
    ]:
        loaded = config.load_config(MLM, mixed | {key: text})
        found = loaded.values["objective"]["parts"]
        assert found == parts | {"first": expected}
    mixture = {"data.mixture": {"a.txt": 1.0, "a.txt.gz": 2.0}}
    loaded = config.load_config(MLM, mixture | {"data.mixture.a.txt.gz": "3"})
    assert loaded.data.mixture == {"a.txt": 1.0, "a.txt.gz": 3}
    for key, said in [
        ("objective.parts.frist.mixing_rate", "did you mean objective.parts.first"),
        ("objective.parts.first.mixing_rat", "part 'first': .*mixing_rat"),
        ("objective.parts.first.mixing_rate.x", "unknown config key"),
    ]:
        with pytest.raises(UserError, match=said):
            config.load_config(MLM, mixed | {key: "1"})


def test_a_part_that_is_not_right_is_told_by_its_name():
    for parts, said in [
        ('{"a": {"rte": 0.1}}', "part 'a': .*did you mean rate"),
        ('{"a": {"rate": 2}}', "part 'a': .*above 0 and below 1, not 2"),
        ('{"a": {"mixing_rate": -1}}', "mixing_rate of part 'a'"),
        ('{"a": 1}', "names to fields"),
        ("[1]", "JSON object"),
    ]:
        with pytest.raises(UserError, match=said) as caught:
            config.load_config(MLM, ["objective.name=mix", f"objective.parts={parts}"])
        assert "\n" not in str(caught.value)


def test_the_config_is_locked():
    with pytest.raises(AttributeError, match="cannot assign"):
        config.load_config(MLM).train.steps = 1


@pytest.mark.parametrize(
    "spec, override, said",
    [
        ("experiments/mln.py", "seed=1", "experiments/mlm.py"),
        ("nowhere/x.py", "seed=1", "nowhere/x.py"),
        ("README.md", "seed=1", ".py"),
        ("experiments", "seed=1", "experiments"),
        ("experiments/__init__.py", "seed=1", "get_config"),
        (MLM + ":huge", "seed=1", "huge"),
        (MLM, "train.step=1", "train.steps"),
        (MLM, "train=1", "train.steps"),
        (MLM, "train.steps", "train.steps=VALUE"),
        (
            MLM,
            "train.steps=abc",
            "train.steps must be a whole number, at least 1, not 'abc'",
        ),
        (MLM, "objective.rate=x", "rate must be a number, above 0 and below 1,"),
        (MLM, "objective.name=mln", "mlm"),
        (MLM, "objective.raet=0.1", "did you mean objective.rate?"),
        (
            MLM,
            "objective.blocksize=4",
            "did you mean objective.block_size? objective.name=mlm has none, but mask",
        ),
        # Names of other libraries, and sections that are not those of a key.
        (MLM, "optimizer.lr=1", "did you mean optimizer.learning_rate?"),
        (MLM, "lr=1", "did you mean optimizer.learning_rate?"),
        (MLM, "Learning-Rate=1", "did you mean optimizer.learning_rate?"),
        (MLM, "model.learning_rate=1", "did you mean optimizer.learning_rate?"),
        (MLM, "mask_rate=1", "did you mean objective.rate?"),
        (
            "experiments/lm.py",
            "mask_rate=1",
            "it is objective.rate here, and objective",
        ),
        (MLM, "model.hidden_size=1", "did you mean model.width?"),
        (MLM, "train.batch_size=1", "did you mean train.batch?"),
        (MLM, "num_train_epochs=1", "did you mean train.steps?"),
        # What is missing is refused before text is read.
        (MLM, "train.init_from=/nowhere/x", "does not exist; runs in /: none"),
        (
            MLM,
            "train.init_from=/tmp",
            "train.init_from=/tmp has no checkpoint; runs in",
        ),
        (
            "experiments/clip.py",
            "objective.images=test",
            "test does not exist; did you mean /",
        ),
        ("experiments/distilbert.py", "objective.teacher=/x", "teacher=/x does not"),
        ("experiments/transe.py", "data.lexicon=/tmp,/x.tsv", "lexicon=/tmp is a fold"),
        ("experiments/transe.py", "data.lexicon=/x.tsv", "lexicon=/x.tsv does not"),
        ("experiments/ernie_thu.py", "objective.entities=/x", "entities=/x does not"),
        ("experiments/clip.py", "objective.images=/x", "images=/x does not"),
        (MLM, "train.steps=-1", "train.steps must be at least"),
        (
            "experiments/textcnn.py",
            "objective.vectors=/x.txt",
            "vectors=/x.txt does not",
        ),
        (
            MLM,
            "train.track=wandb:x",
            "train.track=wandb:x needs the package wandb: pip",
        ),
        (MLM, "train.track=x", f"train.track must be {trackers.FOLDER.names()[0]}:"),
        (MLM, "train.track=no:x", f"{', '.join(trackers.FOLDER.names())}, got 'no'"),
        (MLM, "train.wandb=x", "did you mean train.track"),
        ("experiments/elmo.py", "data.vocabulary=bpe", "needs the spelling of words"),
        (
            "experiments/fasttext.py",
            "data.vocabulary=bpe",
            "needs the spelling of words",
        ),
    ],
)
def test_a_mistake_is_told_with_what_would_be_right(spec, override, said):
    with pytest.raises(UserError) as caught:
        config.load_config(spec, [override])
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("transe", "data.lexicon is not set; objective transe needs a file of triples"),
        ("sentilare", "lines word<TAB>positive and word<TAB>negative"),
        ("wklm", "data.lexicon is not set; objective wklm needs a file of lines"),
        ("knowbert", "objective.entities is not set; it is the file entities.npz"),
        ("clip", "objective.images is not set; it is the folder that palimpsest im"),
        ("vilt", "objective.images is not set; it is the folder that palimpsest im"),
    ],
)
def test_a_run_names_the_files_that_its_objective_needs(name, said, tmp_path):
    """Before any text is read, or a vocabulary is trained."""
    with pytest.raises(UserError, match=said):
        config.load_config(f"experiments/{name}.py", workdir=tmp_path / "run")


@pytest.mark.parametrize(
    "override, said",
    [
        ("data.length=0", "data.length must be at least 1 and at most 1048576, not 0"),
        ("data.stride=-1", "data.stride must be at least 0, not -1"),
        (
            "data.eval_split=dev",
            "data.eval_split must be train, valid or test, not 'dev'",
        ),
        ("data.alpha=1.5", "data.alpha must be at least 0 and at most 1, not 1.5"),
        ("model.dropout=1", "model.dropout must be at least 0 and below 1, not 1.0"),
        (
            "model.norm_epsilon=nan",
            "model.norm_epsilon must be above 0 and below 1, not nan",
        ),
        (
            "model.norm_epsilon=1e-300",
            "norm_epsilon must be above 0 and below 1, not 1e-300",
        ),
        (
            "optimizer.beta2=0.9999999999",
            "must be at least 0 and below 1, not 0.9999999999",
        ),
        (
            "optimizer.epsilon=1e39",
            "epsilon must be a finite number of 32 bits, not 1e+39",
        ),
        (
            "data.corpus=a\nb",
            "data.corpus must be one line of printable text, not 'a\\nb'",
        ),
        (
            'data.mixture={"f": "x"}',
            "data.mixture: the rate of 'f' must be a number, not 'x'",
        ),
        (
            'data.mixture={"f": -1}',
            "data.mixture: the rate of 'f' must be above 0, not -1",
        ),
        (
            'data.mixture={"f": NaN}',
            "data.mixture: the rate of 'f' must be above 0, not nan",
        ),
        (
            f"train.steps={2**31}",
            "train.steps must be at most 2147483647, not 2147483648",
        ),
        (
            f"model.layers={10**9}",
            "model.layers must be at least 1 and at most 1024, not",
        ),
        ("optimizer.name=adamm", "unknown optimizer.name 'adamm'; did you mean adam"),
        ("optimizer.layer_decay=0", "above 0 and at most 1, not 0.0"),
        (
            "optimizer.learning_rate=inf",
            "learning_rate must be a finite number of 32 bits",
        ),
        ("train.steps=0", "train.steps must be at least 1, not 0"),
        ("seed=-1", "seed must be at least 0 and below 2147483648, not -1"),
        (f"seed={2**70}", "seed must be at least 0 and below 2147483648, not"),
    ],
)
def test_a_value_that_is_not_legal_is_refused(override, said):
    with pytest.raises(UserError) as caught:
        config.load_config(MLM, [override])
    assert said in str(caught.value)


def test_an_experiment_that_sets_an_unknown_key_is_refused(tmp_path):
    file = tmp_path / "misspelled.py"
    file.write_text(
        "from experiments import mlm\n"
        "def get_config():\n"
        "    config = mlm.get_config()\n"
        "    config.model.wdith = 512\n"
        "    return config\n"
    )
    with pytest.raises(UserError, match=r"model\.wdith.*did you mean model\.width"):
        config.load_config(str(file))


def test_an_optimizer_and_a_schedule_have_keys_of_their_own(tmp_path):
    bert = config.load_config("experiments/bert.py", ["optimizer.name=sgd"]).optimizer
    assert (bert.rule.beta1, bert.decay.decay_fraction) == (0.9, 1.0)
    assert not hasattr(bert.rule, "beta2")
    keys = ["optimizer.power=2", "optimizer.schedule=polynomial"]
    assert config.load_config(MLM, keys).optimizer.decay.power == 2.0
    for overrides, key in [
        (["optimizer.name=sgd", "optimizer.beta2=0.9"], "optimizer.beta2"),
        (
            ["optimizer.decay_fraction=0.1", "optimizer.schedule=rsqrt"],
            "decay_fraction",
        ),
        (["optimizer.power=2"], "optimizer.power"),
        (["model.network=tables", "model.heads=2"], "model.heads"),
    ]:
        with pytest.raises(UserError, match=rf"unknown config key '.*{key}'") as caught:
            config.load_config(MLM, overrides)
        assert "\n" not in str(caught.value)
    names = sections.NETWORKS.names()
    classes = {name: sections.NETWORKS.part_class(name, "") for name in names}
    have = (n for n, c in classes.items() if "heads" in c.__dataclass_fields__)
    assert str(caught.value).endswith(f"has none, but {' or '.join(have)}")
    file = tmp_path / "momentum.py"
    lines = "from experiments import mlm\ndef get_config():\n"
    lines += "    config = mlm.get_config()\n"
    lines += "    config.optimizer.update(name='sgd', {})\n    return config\n"
    file.write_text(lines.format("beta1=0.5"))
    assert config.load_config(str(file)).optimizer.rule.beta1 == 0.5
    file.write_text(lines.format("beta2=0.5"))
    with pytest.raises(UserError, match=r"momentum\.py 'optimizer\.beta2'"):
        config.load_config(str(file))


def test_a_key_that_parts_share_has_one_default():
    defaults = {}
    for section, key, folder in sections.choices():
        for name in folder.names() if folder.share_keys else ():
            for field in dataclasses.fields(folder.part_class(name, key)):
                shared = defaults.setdefault((section, key, field.name), {})
                shared[name] = default_of(field)
    for key, found in defaults.items():
        if key == ("model", "network", "norm_placement"):
            found = {"transformer": found["transformer"]}  # others refuse one value
        assert len({repr(value) for value in found.values()}) == 1, (key, found)


@pytest.mark.parametrize(
    ("spec", "rate"),
    [("elmo.py:base", 0.1), ("cvt.py:base", 0.5), ("cove.py:base", 0.2)],
)
def test_layers_of_an_lstm_have_dropout_between_them(spec, rate):
    model = config.load_config(f"experiments/{spec}").model
    assert model.dropout_rate("hidden") == rate


def test_another_network_has_the_dropout_of_its_own_places():
    bert = config.load_config("experiments/bert.py", ["model.network=lstm"]).model
    assert bert.dropout_rate("hidden") == bert.dropout > 0
    keys = ["model.network=transformer", "objective.mem_len=0"]
    keys += ["objective.activation_penalty=0", "objective.temporal_penalty=0"]
    model = config.load_config("experiments/awd_lstm.py", keys).model
    assert model.dropout_rate("layer") == 0
    keys = ["model.network=word_cnn", "model.width=96", "objective.name=mlm"]
    model = config.load_config("experiments/elmo.py", keys).model
    assert model.table_range == 0


def test_every_key_declares_what_is_legal_and_has_a_legal_default():
    parts = [
        folder.part_class(name, key)
        for _, key, folder in sections.choices()
        for name in folder.names()
    ]
    for section in sections.SECTIONS.values():
        fields.check(section())
    for section in [*sections.SECTIONS.values(), *parts]:
        for field in dataclasses.fields(section):
            if type(field.default) in (int, float):
                assert field.metadata.get("bounds"), f"{section}.{field.name}"
            if type(field.default) is str:
                assert field.metadata.keys() & {"values", "text", "folder"}, field.name


@pytest.mark.parametrize(
    ("spec", "key"),
    [
        ("experiments/mdlm.py", "objective.derivative_power"),
        ("experiments/mdlm.py", "objective.low_mean"),
        ("experiments/transe.py", "objective.temperature"),
    ],
)
def test_a_field_that_another_one_leaves_unread_is_told(spec, key, capsys):
    told = f"{key}=0.5 is not read: it needs objective."
    config.load_config(spec, {key: 0.5})
    assert told in capsys.readouterr().err
    config.load_config(spec, {"train.phases": [[0.5, {key: 0.5}]]})
    assert told in capsys.readouterr().err


def test_a_size_of_a_file_that_has_sizes(tmp_path):
    file = tmp_path / "sized.py"
    file.write_text(
        "from experiments import mlm\n"
        "SIZES = {'tiny': 2, 'base': 12}\n"
        "def get_config(size='base'):\n"
        "    config = mlm.get_config()\n"
        "    config.model.layers = SIZES[size]\n"
        "    return config\n"
    )
    assert config.load_config(f"{file}:tiny").model.layers == 2
    assert config.load_config(str(file)).model.layers == 12
    with pytest.raises(UserError, match="did you mean tiny"):
        config.load_config(f"{file}:tinny")


UNREAD = {
    "train.init_scope": "stack",
    "train.init_layers": [1],
    "data.mixing": "batches",
    "optimizer.warmup": "slanted",
    "optimizer.prune_scope": "global",
}
"""Values of keys; those of all others can be 0.5."""


@pytest.mark.parametrize("key", config.READ_WITH)
def test_a_key_that_is_not_read_without_another_is_told(key, capsys, tmp_path):
    (tmp_path / "params").mkdir()  # as a checkpoint has it
    needed, values = config.READ_WITH[key]
    own = {key: UNREAD.get(key, 0.5)}
    config.load_config(MLM, own | {"optimizer.warmup_steps": 0})
    needs = f"{needed}={' or '.join(values)}" if values else needed
    assert f"{key}={own[key]} is not read: it needs {needs}, but that is " in (
        capsys.readouterr().err
    )
    given = {"train.init_from": str(tmp_path), "data.mixture": {"embedded": 1.0}}
    given |= {"optimizer.warmup_steps": 1}
    quiet = [own | {needed: value} for value in values or [given[needed]]]
    for overrides in (*quiet, {}):
        config.load_config(MLM, overrides)
        assert "is not read" not in capsys.readouterr().err


def test_json_nested_too_deeply_is_one_line():
    for override in ("data.mixture=" + '{"a":' * 9999, "train.phases=" + "[" * 9999):
        with pytest.raises(UserError, match="must be a JSON"):
            config.load_config(MLM, [override])


def test_a_warm_up_that_nobody_gave_leaves_room():
    assert config.load_config(MLM, ["train.steps=30"]).optimizer.warmup_steps == 3
    keys = ["train.steps=30", "optimizer.warmup_steps=20"]
    assert config.load_config(MLM, keys).optimizer.warmup_steps == 20
