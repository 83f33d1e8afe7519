"""What is exported is what was imported, byte for byte, or is refused in one line."""

import dataclasses
import json
import re

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from research.contract.errors import UserError
from research.interop.huggingface import export, restore, rows
from research.interop.huggingface.folder import CONFIG, WEIGHTS, read_json
from tests.testing import huggingface_goldens
from tests.testing.huggingface_networks import network_of


@pytest.mark.parametrize("name", huggingface_goldens.NAMES)
def test_export_import_export_gives_the_same_bytes(name, tmp_path):
    golden = huggingface_goldens.load(name)
    export.write_network(tmp_path / "first", network_of(golden))
    again = golden._replace(model=restore.open_model(tmp_path / "first"))
    export.write_network(tmp_path / "second", network_of(again))
    for file in (CONFIG, WEIGHTS):
        first, second = (tmp_path / part / file for part in ("first", "second"))
        assert first.read_bytes() == second.read_bytes()


@pytest.mark.parametrize("name", huggingface_goldens.NAMES)
def test_export_writes_the_tensors_and_the_config_of_hugging_face(name, tmp_path):
    """All of its tensors that any of its functions reads, and each with its bits."""
    golden = huggingface_goldens.load(name)
    export.write_network(tmp_path, network_of(golden))
    theirs = load_file(huggingface_goldens.FOLDER / name / WEIGHTS)
    ours = load_file(tmp_path / WEIGHTS)
    family = golden.model.family
    copies = family.copies
    assert theirs.keys() - ours.keys() <= {*copies} | huggingface_goldens.UNUSED
    assert ours.keys() - {*copies} <= theirs.keys()
    of_layer = rows.LAYER, r"\d+"
    from_one = [r.key for r in family.rows() if r.change is rows.ONE_LESS]
    from_one = "|".join(key.replace(*of_layer) for key in from_one)
    for key in ours.keys() - huggingface_goldens.UNUSED:
        array = ours[key]
        theirs.setdefault(key, theirs.get(copies.get(key)))
        if re.fullmatch(from_one, key):  # the bits of the scale itself
            array, theirs[key] = 1 + array, 1 + theirs[key]
        if "position_embeddings" in key or "embed_positions" in key:
            array, theirs[key] = array[2:], theirs[key][2:]  # no token has the others
        if "rel_embeddings" in key:
            array, theirs[key] = array[1:], theirs[key][1:]  # no bucket has the first
        np.testing.assert_array_equal(array, theirs[key])
    config, expected = (
        read_json(path / CONFIG)
        for path in (tmp_path, huggingface_goldens.FOLDER / name)
    )
    for key in family.keys:
        if expected.get(key.key) is not None:
            assert config[key.key] == expected[key.key]
    assert config["architectures"] == expected["architectures"]


@pytest.fixture(scope="module")
def bert():
    """What `network_of` gives for the golden BERT."""
    return network_of(huggingface_goldens.load("bert"))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"activation": "swiglu"}, r"bert, has model\.activation gelu \(not swiglu\)"),
        ({"norm_placement": "pre"}, r"model\.norm_placement post \(not pre\)"),
        ({"position": "rotary"}, r"model\.position \w+ \(not rotary\)"),
        ({"scale_embeddings": True}, r"model\.scale_embeddings False \(not True\)"),
    ],
)
def test_options_that_no_architecture_has_are_named(bert, tmp_path, changes, words):
    options = dataclasses.replace(bert.options, **changes)
    with pytest.raises(UserError, match=words):
        export.write_network(tmp_path / "x", dataclasses.replace(bert, options=options))
    assert not (tmp_path / "x").exists()


def test_other_buckets_of_t5s_bias_are_named(tmp_path):
    """MPNet's are of both directions, which a key may say."""
    mpnet = network_of(huggingface_goldens.load("mpnet"))

    def write(kind):
        options = dataclasses.replace(mpnet.options, position_buckets=kind)
        network = dataclasses.replace(mpnet, options=options)
        return export.write_network(tmp_path / kind, network)

    assert write("two_way") == write("auto")
    with pytest.raises(UserError, match=r"position_buckets two_way \(not one_way\)"):
        write("one_way")


def test_mpnet_is_exported_with_its_own_padding_id_alone(tmp_path):
    """Its code counts positions by the ids that are not 1, whatever the config says."""
    mpnet = network_of(huggingface_goldens.load("mpnet"))
    other = dataclasses.replace(mpnet, vocab=mpnet.vocab._replace(pad_id=0))
    with pytest.raises(UserError, match=r"mpnet, has padding id 1 \(not 0\)"):
        export.write_network(tmp_path, other)


@pytest.mark.parametrize("name", ["roberta", "xlm-roberta"])
def test_a_readout_whose_activation_a_family_lacks_is_of_another(name, tmp_path):
    """RobertaLMHead has a gelu whatever hidden_act is; BERT's readout has that."""
    network = network_of(huggingface_goldens.load(name))
    (line,) = export.write_network(tmp_path / "gelu", network)
    assert "RobertaForMaskedLM" in line
    options = dataclasses.replace(network.options, activation="relu")
    changed = dataclasses.replace(network, options=options)
    (line,) = export.write_network(tmp_path / "relu", changed)
    assert line.startswith("BertForMaskedLM")


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("gpt2", {"attention": "library", "dropout": 0.0, "attention_dropout": 0.0}),
        ("gpt2", {"product_dtype": "bfloat16"}),  # of training alone
        ("qwen3", {"heads": 3, "num_kv_heads": 3}),  # which do not divide the width
    ],
)
def test_options_that_another_family_cannot_have_are_exported(name, changes, tmp_path):
    """MPNet's bias is not for that attention, and BERT has no width of heads."""
    network = network_of(huggingface_goldens.load(name))
    options = dataclasses.replace(network.options, **changes)
    changed = dataclasses.replace(network, options=options)
    export.write_network(tmp_path, dataclasses.replace(changed, prefers=()))
    assert read_json(tmp_path / CONFIG)["model_type"] == name


@pytest.mark.parametrize(
    ("name", "changes", "found"),
    [
        ("llama", {"heads": 3, "num_kv_heads": 3}, "mistral"),
        ("xlnet", {"head_width": 4}, r"xlnet, has model\.head_width 8 \(not 4\)"),
        ("xlnet", {"heads": 3}, r"model\.heads that divide model\.width 16 \(not 3\)"),
    ],
)
def test_heads_that_a_class_refuses_are_of_another_or_named(
    name, changes, found, tmp_path
):
    """LlamaConfig and XLNetConfig check their sizes; MistralConfig does not."""
    network = network_of(huggingface_goldens.load(name))
    options = dataclasses.replace(network.options, **changes)
    changed = dataclasses.replace(network, options=options)
    if found == "mistral":
        export.write_network(tmp_path, changed)
        assert read_json(tmp_path / CONFIG)["model_type"] == found
        return
    with pytest.raises(UserError, match=found):
        export.write_network(tmp_path, changed)


def test_parts_of_the_output_table_are_named(tmp_path):
    network = network_of(huggingface_goldens.load("gpt2"))
    options = {"cutoffs": (40,), "init": "normal", "output_head": "table"}
    options = dataclasses.replace(network.options, **options)
    words = r"gpt2, has model\.cutoffs \(\) \(not \(40,\)\)"
    with pytest.raises(UserError, match=words):
        export.write_network(tmp_path, dataclasses.replace(network, options=options))


def test_another_attention_mask_is_named(bert, tmp_path):
    words = r"attention masks full \(not general\)"
    with pytest.raises(UserError, match=words):
        export.write_network(tmp_path, dataclasses.replace(bert, pattern="general"))


def test_parameters_without_a_place_are_refused_but_for_heads(bert, tmp_path):
    """A head more is left out and named; anything else would change the network."""
    heads = ("head_structural/out/bias", "future_0/norm/scale", "future_0/norm/bias")
    more = dict.fromkeys(heads, np.zeros(3, np.float32))
    more = dataclasses.replace(bert, params=bert.params | more)
    lines = export.write_network(tmp_path, more)
    assert lines[1].endswith("does not have: future_0, head_structural")
    gate = {"stack/blocks/feedforward/gate/kernel": np.zeros(3, np.float32)}
    with pytest.raises(UserError, match="no parameters for stack/blocks/fe"):
        export.write_network(
            tmp_path, dataclasses.replace(bert, params=bert.params | gate)
        )


def test_a_head_of_another_activation_is_left_out(tmp_path):
    """ELECTRA's classifier has a gelu, DistilBERT's a relu; neither file says it."""
    network = network_of(huggingface_goldens.load("distilbert-label"))
    changed = dataclasses.replace(network, head_activation="gelu", prefers=())
    first, *_ = export.write_network(tmp_path / "gelu", changed)
    assert first.startswith("ElectraForSequenceClassification")
    changed = dataclasses.replace(changed, head_activation="relu")
    first, *_ = export.write_network(tmp_path / "relu", changed)
    assert first.startswith("DistilBertForSequenceClassification")


def test_a_mean_of_states_is_a_head_of_modernbert_alone(tmp_path):
    for name in ("modernbert-label", "electra-label"):
        network = network_of(huggingface_goldens.load(name))
        network = dataclasses.replace(network, pool="mean")
        if name == "modernbert-label":
            export.write_network(tmp_path / name, network)
            config = json.loads((tmp_path / name / "config.json").read_text())
            assert config["classifier_pooling"] == "mean"
        else:
            with pytest.raises(UserError, match=r"objective\.pool token \(not mean\)"):
                export.write_network(tmp_path / name, network)


def test_the_tagger_of_electra_has_no_hidden_layer(tmp_path):
    network = network_of(huggingface_goldens.load("electra-label"))
    kernel = network.params["head_label/out/kernel"]
    rest = {p: x for p, x in network.params.items() if not p.startswith("head_")}
    head = {"head_tag/out/kernel": kernel, "head_tag/out/bias": kernel[0]}
    changed = dataclasses.replace(network, params=rest | head, head_activation="none")
    first, *_ = export.write_network(tmp_path, changed)
    assert first.startswith("ElectraForTokenClassification")


MAPPING = "albert.encoder.embedding_hidden_mapping_in"


@pytest.fixture
def equal_albert(bert, tmp_path):
    """The golden BERT with shared layers, as an ALBERT: its parameters, the folder."""
    options = dataclasses.replace(bert.options, shared_layers=True)
    params = {
        path: x[:1] if "/blocks/" in path else x
        for path, x in bert.params.items()
        if not path.startswith(("head_", "pooler/"))
    }
    network = dataclasses.replace(bert, options=options, params=params)
    export.write_network(tmp_path, network)
    return params, tmp_path


def test_an_albert_of_equal_sizes_maps_embeddings_to_themselves(equal_albert):
    """Hugging Face's always has the layer, ours only between two widths."""
    params, folder = equal_albert
    assert read_json(folder / CONFIG)["model_type"] == "albert"
    tensors = load_file(folder / WEIGHTS)
    width = params["token/embedding"].shape[1]
    np.testing.assert_array_equal(tensors[f"{MAPPING}.weight"], np.eye(width))
    np.testing.assert_array_equal(tensors[f"{MAPPING}.bias"], np.zeros(width))
    shapes = {path: x.shape for path, x in params.items()}
    found = restore.restore(f"hf:{folder}", "", shapes)
    assert found.params.keys() == params.keys() and not found.unused


@pytest.mark.parametrize("end", ["weight", "bias"])
def test_an_albert_of_equal_sizes_with_another_mapping_is_refused(equal_albert, end):
    _, folder = equal_albert
    tensors = load_file(folder / WEIGHTS)
    tensors[f"{MAPPING}.{end}"][-1] += 1
    save_file(tensors, folder / WEIGHTS)
    with pytest.raises(UserError, match=rf"\.{end} must be the identity"):
        restore.open_model(folder)


def test_dropout_without_a_key_is_named(bert, tmp_path):
    options = dataclasses.replace(bert.options, feedforward_dropout=0.25)
    lines = export.write_network(tmp_path, dataclasses.replace(bert, options=options))
    assert lines[-1].endswith("no such key: model.feedforward_dropout 0.25")


def test_families_of_one_network_are_told_apart_by_what_is_preferred(tmp_path):
    network = network_of(huggingface_goldens.load("roberta"))
    for prefers in ("roberta", "xlm-roberta", "camembert", "bert"):
        changed = dataclasses.replace(network, prefers=(prefers,))
        export.write_network(tmp_path, changed)
        assert read_json(tmp_path / CONFIG)["model_type"] == prefers
