"""A folder that is not right is refused in one line that says what is wrong."""

import json
import math
import os
import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from research.contract.errors import UserError
from research.interop.huggingface import restore
from research.interop.huggingface.folder import (
    CONFIG,
    INDEX,
    WEIGHTS,
    Tensors,
    write_folder,
)
from tests.proofs import permissions
from tests.testing.huggingface_goldens import FOLDER, NAMES

ODD_VALUES = (True, -1, 0, 10**9, math.nan, 2.5, "x", None, [], {})
SHARDS = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")


@pytest.fixture
def bert(tmp_path):
    """A copy of the golden BERT."""
    folder = tmp_path / "bert"
    shutil.copytree(FOLDER / "bert", folder)
    return folder


@pytest.fixture
def sharded(bert):
    """The same in two files, and their index."""
    tensors = load_file(bert / WEIGHTS)
    names = sorted(tensors)
    weight_map = {name: SHARDS[i % 2] for i, name in enumerate(names)}
    for file in SHARDS:
        own = {n: tensors[n] for n in names if weight_map[n] == file}
        save_file(own, bert / file, metadata={"format": "pt"})
    (bert / WEIGHTS).unlink()
    write_index(bert, weight_map)
    return bert


def write_index(folder, weight_map):
    (folder / INDEX).write_text(json.dumps({"weight_map": weight_map}))


def read_index(folder):
    return json.loads((folder / INDEX).read_text())["weight_map"]


def change_config(folder, **changes):
    config = json.loads((folder / CONFIG).read_text())
    (folder / CONFIG).write_text(json.dumps(config | changes))


def assert_refused(folder, words):
    with pytest.raises(UserError, match=words) as caught:
        restore.open_model(folder)
    assert "\n" not in str(caught.value)


def test_shards_are_read_as_one_file(sharded):
    expected = load_file(FOLDER / "bert" / WEIGHTS)
    tensors = Tensors(sharded)
    assert {*tensors} == {*expected}
    for name, array in expected.items():
        np.testing.assert_array_equal(tensors[name], array)


def test_a_missing_shard_is_named(sharded):
    (sharded / SHARDS[1]).unlink()
    assert_refused(sharded, f"{SHARDS[1]} is missing")


def test_a_shard_without_one_of_its_tensors_is_named(sharded):
    write_index(sharded, read_index(sharded) | {"lost": SHARDS[0]})
    assert_refused(sharded, f"{SHARDS[0]} has no tensor lost")


@pytest.mark.parametrize("path", ["../bert/secret.safetensors", "/etc/passwd", 7])
def test_an_index_cannot_name_a_file_outside_the_folder(sharded, path):
    (sharded / "secret.safetensors").touch()
    write_index(sharded, read_index(sharded) | {"lost": path})
    assert_refused(sharded, "not a file of that folder")


@pytest.mark.parametrize("size", [5, 1000, -8])
def test_a_truncated_file_is_refused(bert, size):
    data = (bert / WEIGHTS).read_bytes()
    (bert / WEIGHTS).write_bytes(data[:size])
    assert_refused(bert, f"{WEIGHTS} is damaged or cut off")


def test_a_pickle_is_refused_with_the_way_out(bert):
    (bert / WEIGHTS).rename(bert / "pytorch_model.bin")
    assert_refused(bert, r"pytorch_model\.bin.*a pickle can run code.*save_pretrained")


def test_a_folder_without_weights_or_config_is_refused(bert):
    (bert / WEIGHTS).unlink()
    assert_refused(bert, f"has no {WEIGHTS}")
    (bert / CONFIG).unlink()
    assert_refused(bert, f"has no {CONFIG}")


def test_weights_that_may_not_be_read_are_not_missing(bert):
    (bert / WEIGHTS).chmod(0)
    with permissions.obeyed(), pytest.raises(PermissionError) as refused:
        restore.open_model(bert)
    assert refused.value.filename == str(bert / WEIGHTS)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model_type": "deberta"}, "'deberta', which has no counterpart.*bert"),
        ({"architectures": 5}, "architectures is 5; it must be a list"),
        ({"architectures": 0}, "architectures is 0; it must be a list"),
        ({"hidden_act": "mish"}, "hidden_act is 'mish'; known: gelu"),
        ({"hidden_act": None}, "hidden_act is None; known: gelu"),
        ({"is_decoder": True}, "is_decoder is True; only False"),
        ({"position_embedding_type": "relative_key"}, "position_embedding_type is"),
        ({"hidden_size": None}, "config.json has no hidden_size"),
        ({"vocab_size": None}, "config.json has vocab_size None"),
        ({"vocab_size": True}, "config.json has vocab_size True"),
        (
            {"num_hidden_layers": 10**9},
            r"config.json: model\.layers must be .* at most 1024",
        ),
        (
            {"num_hidden_layers": True},
            r"config.json: model\.layers must be a whole number",
        ),
        ({"type_vocab_size": 0}, "type_vocab_size is 0, but there is .*token_type"),
        ({"hidden_dropout_prob": 2}, r"config.json: model\.dropout"),
        ({"vocab_size": 10**9}, r"word_embeddings.weight has shape \[99, 16\], but by"),
        ({"hidden_size": 2**20}, r"word_embeddings.weight has shape \[99, 16\], but"),
        ({"intermediate_size": 10**6}, r"dense.weight has shape \[\d+, 16\], but by"),
        ({"num_hidden_layers": 900}, "config.json counts 900 layers, but there is no"),
        ({"layer_norm_eps": 2.5}, r"config.json: model\.norm_epsilon"),
        ({"layer_norm_eps": -1.0}, r"config.json: model\.norm_epsilon"),
        ({"layer_norm_eps": math.nan}, r"config.json: model\.norm_epsilon"),
        ({"hidden_act": []}, "config.json has a value of the wrong type"),
    ],
)
def test_a_config_that_no_option_means_is_refused(bert, changes, words):
    change_config(bert, **changes)
    assert_refused(bert, words)


def test_debertas_largest_distance_is_that_of_its_positions(tmp_path):
    shutil.copytree(FOLDER / "deberta-v2", tmp_path / "v3")
    change_config(tmp_path / "v3", max_relative_positions=-1, pos_att_type="p2c|c2p")
    options = restore.open_model(tmp_path / "v3").options
    assert (options["distance_buckets"], options["largest_distance"]) == (4, 20)


@pytest.mark.parametrize("family", NAMES)
def test_any_value_is_read_or_refused_in_one_line(family, tmp_path):
    folder, random = tmp_path / family, np.random.default_rng(0)
    shutil.copytree(FOLDER / family, folder)
    config = json.loads((folder / CONFIG).read_text())
    cases = [(key, value) for key in config for value in ODD_VALUES]
    for index in random.choice(len(cases), 30, replace=False):
        key, value = cases[index]
        (folder / CONFIG).write_text(json.dumps(config | {key: value}))
        try:
            restore.open_model(folder)
        except UserError as error:
            message = str(error)
            assert str(folder) in message and "\n" not in message, (key, value, message)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (lambda array: array.astype(np.int32), "is of type I32; weights .* F32"),
        (lambda array: np.full_like(array, np.nan), "numbers that are not finite"),
    ],
)
def test_weights_that_are_no_numbers_are_refused(bert, changed, words):
    tensors = load_file(bert / WEIGHTS)
    name = next(name for name in tensors if name.endswith("word_embeddings.weight"))
    save_file(tensors | {name: changed(tensors[name])}, bert / WEIGHTS)
    with pytest.raises(UserError, match=f"{name} .*{words}"):
        Tensors(bert)[name]


@pytest.mark.parametrize(
    ("family", "changes", "words"),
    [
        ("llama3", {"rope_scaling": {"type": "yarn"}, "rope_parameters": None}, "yarn"),
        ("llama", {"rope_parameters": {"rope_type": "llama3"}}, "llama3 has no factor"),
        (
            "llama",
            {"rope_parameters": 0},
            "rope_parameters is 0; it must be an object, or",
        ),
        (
            "llama",
            {"rope_scaling": []},
            r"rope_scaling is \[\]; it must be an object, or",
        ),
        (
            "modernbert",
            {"rope_parameters": []},
            r"rope_parameters is \[\]; it must be an",
        ),
        (
            "mistral",
            {"sliding_window": False},
            "sliding_window is False; it must be 2 or",
        ),
        ("mistral", {"sliding_window": 1}, "sliding_window is 1; it must be 2 or more"),
        ("qwen2", {"use_sliding_window": True}, "use_sliding_window is True; only Fal"),
        ("mpnet", {"relative_attention_num_buckets": 8}, "only 32 is known here"),
        ("deberta-v2", {"pos_att_type": "c2p"}, "only c2p and p2c are known here"),
        ("deberta-v2", {"conv_kernel_size": 3}, "conv_kernel_size is 3; only 0"),
        (
            "modernbert",
            {"local_attention": 1},
            "local_attention is 1; it must be 2 or more",
        ),
        (
            "modernbert",
            {"layer_types": ["sliding_attention"] + ["full_attention"] * 2},
            "full_attention at each n-th of all layers from the first on",
        ),
        (
            "modernbert",
            {"layer_types": None, "global_attn_every_n_layers": 0},
            "global_attn_every_n_layers is 0; it must be a whole number",
        ),
        (
            "modernbert",
            {"rope_parameters": {"sliding_attention": {"rope_type": "yarn"}}},
            "only the rope_type default is known here",
        ),
    ],
)
def test_a_config_of_another_family_is_refused(family, changes, words, tmp_path):
    shutil.copytree(FOLDER / family, tmp_path / family)
    change_config(tmp_path / family, **changes)
    assert_refused(tmp_path / family, words)


@pytest.mark.parametrize(
    ("family", "changes", "option", "value"),
    [
        # As transformers 4 wrote them.
        (
            "llama3",
            {"rope_parameters": None, "rope_theta": 5e5}
            | {"rope_scaling": {"type": "default"}},
            ("rope_theta", "rope_scaling"),
            (5e5, ()),
        ),
        (
            "gpt-neox",
            {"rope_parameters": None, "rotary_pct": 0.25, "rotary_emb_base": 5e3},
            ("rotary_fraction", "rope_theta"),
            (0.25, 5e3),
        ),
        ("mistral", {"sliding_window": None}, ("window",), (0,)),
        (
            "modernbert",
            {"rope_parameters": None, "layer_types": None, "global_rope_theta": 8e4}
            | {"local_rope_theta": 5e3, "global_attn_every_n_layers": 3},
            ("rope_theta", "rope_theta_local", "global_every", "window"),
            (8e4, 5e3, 3, 2),
        ),
        (
            "modernbert",
            {"layer_types": ["full_attention"] * 3},
            ("rope_theta", "rope_theta_local", "global_every", "window"),
            (160_000.0, 0.0, 0, 0),
        ),
        (
            "modernbert",
            {"layer_types": ["sliding_attention"] * 3},
            ("rope_theta_local", "global_every", "window"),
            (10_000.0, 0, 2),
        ),
        ("gemma", {"hidden_act": "gelu"}, ("activation",), ("geglu",)),
        ("marian", {"activation_function": "swish"}, ("activation",), ("silu",)),
    ],
)
def test_other_spellings_of_configs(family, changes, option, value, tmp_path):
    shutil.copytree(FOLDER / family, tmp_path / family)
    change_config(tmp_path / family, **changes)
    options = restore.open_model(tmp_path / family).options
    assert tuple(options[name] for name in option) == value


def test_what_is_no_json_is_refused(bert):
    (bert / CONFIG).write_text("{")
    assert_refused(bert, f"{CONFIG} is not JSON")
    (bert / CONFIG).write_text("[]")
    assert_refused(bert, f"{CONFIG} is not a JSON object")


def test_keys_of_the_first_releases_and_of_a_body_alone_are_known(bert):
    """BERT's files of 2019 have gamma and beta; those of BertModel have no prefix."""
    expected = load_file(bert / WEIGHTS)
    old = {
        key.replace("LayerNorm.weight", "LayerNorm.gamma")
        .replace("LayerNorm.bias", "LayerNorm.beta")
        .removeprefix("bert."): array
        for key, array in expected.items()
        if key.startswith("bert.")
    }
    save_file(old, bert / WEIGHTS, metadata={"format": "pt"})
    tensors = restore.open_model(bert).tensors
    assert {*tensors} == {key for key in expected if key.startswith("bert.")}


def test_files_have_the_mode_of_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        write_folder(tmp_path, {}, {"weight": np.zeros(1)})
    finally:
        os.umask(before)
    modes = [(tmp_path / name).stat().st_mode & 0o777 for name in (CONFIG, WEIGHTS)]
    assert modes == [0o640, 0o640]
