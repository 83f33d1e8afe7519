"""train.init_from=hf:DIR: config and parameters of the folder, what is left named."""

import dataclasses
import json
import shutil

import jax
import numpy as np
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P
from safetensors.numpy import load_file, save_file

from launch.config import load_config
from research.checkpoints.checkpoint import path_name
from research.contract.errors import UserError
from research.data.tokenize.model_files import MARIAN_FILE, MODEL_FILES
from research.data.tokenize.vocabulary import load_vocabulary
from research.interop.huggingface import restore
from research.interop.huggingface.folder import CONFIG, WEIGHTS
from research.interop.partial_restore import restore_params
from tests.testing import huggingface_goldens
from tests.testing.hub import running_hub
from tests.testing.huggingface_goldens import FOLDER

BERT = f"hf:{FOLDER / 'bert'}"


@pytest.fixture(scope="module")
def params():
    """Those of the golden BERT, as this run's initial ones on two devices: all 7."""
    golden = huggingface_goldens.load("bert")
    mesh = jax.make_mesh((2,), ("data",), devices=jax.devices()[:2])

    def initial(leaf):
        spec = P("data") if leaf.shape[0] % 2 == 0 else P()
        full = np.full(leaf.shape, 7.0, np.float32)
        return jax.device_put(full, NamedSharding(mesh, spec))

    tree = huggingface_goldens.params_of(golden)
    return tree, jax.tree.map(initial, tree)


def restore_bert(initial, source=BERT, scope="", num_pieces=99):
    return restore_params(source, scope, initial, vocabulary="", num_pieces=num_pieces)


def test_parameters_are_those_of_the_folder_on_any_mesh(params, capsys):
    """Rows that only pad the vocabulary keep their initial values, and are named."""
    expected, initial = params
    found, missing = restore_bert(initial)
    assert missing == ["output/bias from row 99 on", "token/embedding from row 99 on"]
    for (path, leaf), own in zip(
        jax.tree_util.tree_flatten_with_path(found)[0],
        jax.tree.leaves(expected),
        strict=True,
    ):
        rows = 99 if path_name(path) in ("output/bias", "token/embedding") else len(own)
        array = np.asarray(leaf)
        np.testing.assert_array_equal(array[:rows], own[:rows])
        np.testing.assert_array_equal(array[rows:], 7)
        assert leaf.sharding.num_devices == 2
    assert "not used" not in capsys.readouterr().err


def test_a_tower_of_texts_starts_from_a_model_of_texts(params):
    """The other tower keeps its initial values; rows that pad keep theirs, too."""
    expected, initial = params
    found, missing = restore_bert({"text": initial, "image": initial})
    rows = "from row 99 on"
    assert {f"text/output/bias {rows}", f"text/token/embedding {rows}"} < {*missing}
    assert all(
        (np.asarray(leaf) == 7).all() for leaf in jax.tree.leaves(found["image"])
    )
    kernel, own = (x["stack"]["blocks"]["attention"] for x in (found["text"], expected))
    jax.tree.map(np.testing.assert_array_equal, kernel, own)
    table = np.asarray(found["text"]["token"]["embedding"])
    np.testing.assert_array_equal(table[:99], expected["token"]["embedding"][:99])
    assert (table[99:] == 7).all()


@pytest.mark.parametrize("layers", [[1], [1, 0], [0, 9]])
def test_layers_start_from_those_that_are_chosen(params, layers):
    expected, initial = params
    small = jax.tree_util.tree_map_with_path(
        lambda path, leaf: leaf[: len(layers)] if "blocks" in path_name(path) else leaf,
        initial,
    )
    restore = lambda: restore_params(  # noqa: E731
        BERT, "", small, vocabulary="", num_pieces=99, layers=layers
    )
    if 9 in layers:
        with pytest.raises(UserError, match=r"init_layers: .* has no layer 9"):
            restore()
        return
    found = restore()[0]["stack"]["blocks"]["feedforward"]["in"]["kernel"]
    own = expected["stack"]["blocks"]["feedforward"]["in"]["kernel"]
    np.testing.assert_array_equal(found, own[np.array(layers)])


def test_what_does_not_match_is_named(params, capsys):
    _, initial = params
    answer = initial["head_nsp"]
    rest = {name: tree for name, tree in initial.items() if name != "head_nsp"}
    found, missing = restore_bert(rest | {"head_label": answer})
    assert {f"head_label/out/{name}" for name in ("kernel", "bias")} <= {*missing}
    tensors = load_file(FOLDER / "bert" / WEIGHTS)
    pooler = tensors["bert.pooler.dense.weight"].T
    np.testing.assert_array_equal(found["pooler"]["kernel"], pooler)
    line = next(x for x in capsys.readouterr().err.splitlines() if "not used" in x)
    assert "cls.seq_relationship.weight" in line and "pooler" not in line


@pytest.mark.parametrize("num_pieces", [100, 130])
def test_a_vocabulary_of_another_size_is_refused(params, num_pieces):
    words = rf"vocabulary of 99 rows, but .* {num_pieces} pieces; set data.vocabulary"
    with pytest.raises(UserError, match=words):
        restore_bert(params[1], num_pieces=num_pieces)


def test_rows_behind_the_vocabulary_are_left_out_and_named(params, tmp_path, capsys):
    """Qwen2's table has 151,936 rows for 151,646 pieces."""
    folder = huggingface_goldens.copy_with_vocabulary("bert", tmp_path)
    tensors = load_file(folder / WEIGHTS)
    for key in ("bert.embeddings.word_embeddings.weight", "cls.predictions.bias"):
        more = np.full((130, *tensors[key].shape[1:]), 9, np.float32)
        tensors[key] = np.concatenate([tensors[key], more])
    save_file(tensors, folder / WEIGHTS)
    config = json.loads((folder / CONFIG).read_text())
    (folder / CONFIG).write_text(json.dumps(config | {"vocab_size": 229}))
    source, own = f"hf:{folder}", load_vocabulary(folder, 0).sha256
    facts = {"vocabulary": own, "num_pieces": 99}
    found, missing = restore_params(source, "", params[1], **facts)
    table, expected = (tree["token"]["embedding"] for tree in (found, params[0]))
    np.testing.assert_array_equal(np.asarray(table)[:99], expected[:99])
    line = next(x for x in capsys.readouterr().err.splitlines() if "not used" in x)
    assert "bert.embeddings.word_embeddings.weight from row 128 on" in line
    assert "cls.predictions.bias from row 128 on" in line and not missing
    with pytest.raises(UserError, match="vocabulary of 229 rows, but"):
        restore_bert(params[1], source)  # it is not known whose vocabulary it is


def test_a_table_of_another_size_than_the_config_says_is_refused(params, tmp_path):
    shutil.copytree(FOLDER / "bert", tmp_path / "bert")
    config = json.loads((FOLDER / "bert" / CONFIG).read_text())
    (tmp_path / "bert" / CONFIG).write_text(json.dumps(config | {"vocab_size": 120}))
    with pytest.raises(UserError, match=r"has shape \[99, 16\], but by .* 120 x 16"):
        restore_bert(params[1], f"hf:{tmp_path / 'bert'}")


@pytest.mark.parametrize(
    "name", ["roberta", "xlm-roberta", "electra-generator", "mpnet"]
)
def test_a_readout_of_another_activation_than_the_layers_is_refused(name, tmp_path):
    """A network here has one for both; without its readout it is the same network."""
    shutil.copytree(FOLDER / name, tmp_path / name)
    config = json.loads((FOLDER / name / CONFIG).read_text())
    (tmp_path / name / CONFIG).write_text(json.dumps(config | {"hidden_act": "relu"}))
    model = restore.open_model(tmp_path / name)
    shapes = {"output/dense/kernel": (16, 16), "stack/norm/scale": (16,)}
    words = r"predicts tokens with activation gelu.*\(relu\)"
    with pytest.raises(UserError, match=words):
        restore.restore_network(model, shapes, 0)
    del shapes["output/dense/kernel"]
    assert restore.restore_network(model, shapes, 0)
    shapes = {"output/dense/kernel": (16, 16)}
    assert restore.restore_network(restore.open_model(FOLDER / name), shapes, 0).params


@pytest.mark.parametrize(
    "family, key",
    [("bert", "num_hidden_layers"), ("t5", "num_layers"), ("t5", "num_decoder_layers")],
)
def test_a_model_that_a_config_shortens_is_refused(family, key, tmp_path):
    shutil.copytree(FOLDER / family, tmp_path / family)
    config = json.loads((FOLDER / family / CONFIG).read_text())
    (tmp_path / family / CONFIG).write_text(json.dumps(config | {key: 1}))
    with pytest.raises(UserError, match=r"counts 1 layers, but there is .*\b1\b"):
        restore.open_model(tmp_path / family)


@pytest.mark.parametrize(
    ("name", "expected"), [("albert", ("gelu_tanh", 0.0)), ("bert", ("gelu", 0.1))]
)
def test_keys_that_a_config_lacks_have_the_defaults_of_its_family(
    name, expected, tmp_path
):
    shutil.copytree(FOLDER / name, tmp_path / name)
    absent = ("hidden_act", "hidden_dropout_prob", "attention_probs_dropout_prob")
    config = json.loads((tmp_path / name / CONFIG).read_text())
    rest = {key: value for key, value in config.items() if key not in absent}
    (tmp_path / name / CONFIG).write_text(json.dumps(rest))
    options = restore.open_model(tmp_path / name).options
    found = (options[key] for key in ("activation", "dropout", "attention_dropout"))
    assert tuple(found) == (*expected, expected[1])


@pytest.mark.parametrize(("name", "first"), [("mpnet", 2), ("roberta", 1)])
def test_positions_start_behind_the_padding_id_of_a_family(name, first, tmp_path):
    """pad_token_id of the config, here 0; MPNet's code has 1 in its place."""
    shutil.copytree(FOLDER / name, tmp_path / name)
    huggingface_goldens.change_config(tmp_path / name, pad_token_id=0)
    model = restore.open_model(tmp_path / name)
    (key,) = (key for key in model.tensors if "position_embeddings" in key)
    table, length = model.tensors[key], model.options["max_length"]
    shapes = {"embeddings/position": (length, 16)}
    found = restore.restore_network(model, shapes, 0).params
    np.testing.assert_array_equal(found["embeddings/position"], table[first:])
    assert len(table) == first + length


def test_another_vocabulary_of_the_same_size_is_refused(params, tmp_path):
    shutil.copytree(FOLDER / "bert", tmp_path / "bert")
    (tmp_path / "bert" / "vocab.txt").write_text("[UNK]\n[PAD]\n")
    source = f"hf:{tmp_path / 'bert'}"
    with pytest.raises(UserError, match=r"another vocabulary.*set data\.vocabulary="):
        restore_params(source, "", params[1], vocabulary="of another file")


def test_parameters_of_another_shape_are_refused(params):
    initial = params[1] | {"embeddings": {"position": jax.numpy.zeros((8, 16))}}
    words = r"embeddings/position has shape \(20, 16\) there"
    with pytest.raises(UserError, match=words):
        restore_bert(initial)


def test_a_copy_of_a_tied_table_must_be_one(params, tmp_path):
    """Files that keep both are read; two tables that differ are refused."""
    folder = tmp_path / "bert"
    shutil.copytree(FOLDER / "bert", folder)
    tensors, copy = load_file(folder / WEIGHTS), "cls.predictions.decoder.weight"
    table = tensors["bert.embeddings.word_embeddings.weight"]
    save_file(tensors | {copy: table.copy()}, folder / WEIGHTS)
    restore_bert(params[1], f"hf:{folder}")
    save_file(tensors | {copy: table + 1}, folder / WEIGHTS)
    with pytest.raises(UserError, match=f"{copy} differs from bert.embeddings"):
        restore_bert(params[1], f"hf:{folder}")


@pytest.mark.parametrize("family", ["llama", "llama3", "mistral", "qwen2", "gpt-neox"])
def test_a_network_without_readout_leaves_out_an_output_table(family):
    """That of a decoder's own, which every large one has; a task's head is another."""
    shapes = {"token/embedding": (128, 16)}
    found = restore.restore(f"hf:{FOLDER / family}", "", shapes)
    assert found.params.keys() == shapes.keys()
    assert {"lm_head.weight", "embed_out.weight"} & {*found.unused}
    shapes["output/embedding"] = (128, 16)
    found = restore.restore(f"hf:{FOLDER / family}", "", shapes)
    assert found.params.keys() == shapes.keys()
    tables = [found.params[name][:99] for name in shapes]
    assert not np.array_equal(*tables)


def test_a_folder_whose_layers_have_other_keys_is_refused(params, tmp_path):
    """As LlamaForQuestionAnswering: all of the network would be initialised anew."""
    folder = tmp_path / "bert"
    shutil.copytree(FOLDER / "bert", folder)
    tensors = load_file(folder / WEIGHTS)
    moved = {key.replace("bert.", "transformer."): x for key, x in tensors.items()}
    save_file(moved, folder / WEIGHTS)
    with pytest.raises(UserError, match="a BertForPreTraining whose layers are not"):
        restore_bert(params[1], f"hf:{folder}")


def test_a_folder_that_is_missing_is_refused(params):
    with pytest.raises(UserError, match="hf:/nowhere: no such folder"):
        restore_bert(params[1], "hf:/nowhere")


def test_the_model_of_a_config_is_that_of_the_folder():
    """Keys that are given win; others are the folder's, not the experiment's."""
    changes = {"train.init_from": BERT, "model.dropout": 0.3}
    with pytest.raises(
        UserError, match=r"bert has no vocabulary.*give data\.vocabulary"
    ):
        load_config("experiments/finetune.py", changes)
    changes["data.vocabulary"] = "unigram"
    config = load_config("experiments/finetune.py", changes)
    assert (config.model.width, config.model.layers, config.model.heads) == (16, 3, 2)
    assert config.model.norm_placement == "post" and config.model.token_types == 2
    assert config.model.dropout == 0.3 and config.data.sentinels == 0


def test_the_vocabulary_of_a_config_is_that_of_the_folder(tmp_path):
    shutil.copytree(FOLDER / "bert", tmp_path / "bert")
    (tmp_path / "bert" / "vocab.txt").write_text("[UNK]\n")
    changes = {"train.init_from": f"hf:{tmp_path / 'bert'}"}
    config = load_config("experiments/finetune.py", changes)
    assert config.data.vocabulary == str(tmp_path / "bert")


def test_t5_unties_its_table_where_the_file_does(tmp_path):
    """transformers 5 writes that all tables are tied; features of a table of its own
    are not scaled, and a tied table without scaling is written as a second table."""
    source = FOLDER / "t5"
    assert restore.open_model(source).options["tie_embeddings"]
    assert not restore.open_model(FOLDER / "t5-v1_1").options["tie_embeddings"]
    shutil.copytree(source, tmp_path / "t5")
    config = json.loads((source / CONFIG).read_text())
    changed = config | {"scale_decoder_outputs": False}
    (tmp_path / "t5" / CONFIG).write_text(json.dumps(changed))
    model = restore.open_model(tmp_path / "t5")
    assert not model.options["tie_embeddings"]
    shapes = {"output/embedding": (128, 16), "token/embedding": (128, 16)}
    found = restore.restore_network(model, shapes, 0).params
    np.testing.assert_array_equal(found["output/embedding"], found["token/embedding"])


@pytest.mark.parametrize("name", ["llama", "gpt2", "t5"])
@pytest.mark.parametrize("tied", [True, False])
def test_an_output_table_is_the_token_table_only_where_a_config_says_so(
    name, tied, tmp_path
):
    """As in a file of the body alone, whose output table is then initialised anew."""
    folder = tmp_path / name
    shutil.copytree(FOLDER / name, folder)
    huggingface_goldens.change_config(folder, tie_word_embeddings=tied)
    tensors = load_file(folder / WEIGHTS)
    rest = {key: x for key, x in tensors.items() if key != "lm_head.weight"}
    save_file(rest, folder / WEIGHTS)
    shapes = {"output/embedding": (128, 16), "token/embedding": (128, 16)}
    found = restore.restore_network(restore.open_model(folder), shapes, 0).params
    assert ("output/embedding" in found) == tied and "token/embedding" in found


def test_electra_is_read_from_a_folder_of_two_networks(tmp_path):
    for part in ("generator", "discriminator"):
        shutil.copytree(FOLDER / f"electra-{part}", tmp_path / part)
    shapes = {
        "discriminator/token/embedding": (128, 16),
        "discriminator/head_replaced/out/bias": (1,),
        "generator/output/dense/bias": (8,),
    }
    found = restore.restore(f"hf:{tmp_path}", "", shapes, num_pieces=99)
    assert found.params.keys() == shapes.keys()
    assert any(key.startswith("generator: electra.encoder") for key in found.unused)
    shapes = {"token/embedding": (128, 8)}
    alone = restore.restore(f"hf:{tmp_path}", "generator", shapes)
    assert alone.params["token/embedding"].shape == (128, 8)


def test_a_run_of_electra_has_a_generator_of_the_folders_size(tmp_path):
    for part in ("generator", "discriminator"):
        shutil.copytree(FOLDER / f"electra-{part}", tmp_path / part)
    huggingface_goldens.change_config(tmp_path / "generator", num_hidden_layers=1)
    weights = tmp_path / "generator" / WEIGHTS
    gone = (".layer.1.", ".layer.2.")
    kept = load_file(weights).items()
    save_file({k: v for k, v in kept if not any(g in k for g in gone)}, weights)
    keys = restore.config_overrides(f"hf:{tmp_path}", "electra")
    sizes = keys["objective.generator_size"], keys["objective.generator_depth"]
    assert keys["model.layers"] == 3 and sizes == (1, pytest.approx(1 / 3))
    others = restore.config_overrides(f"hf:{tmp_path}", "mlm")
    assert not any(key.startswith("objective.generator") for key in others)


@pytest.mark.parametrize(
    ("id2label", "words"),
    [
        ({"1": "a", "2": "b"}, r"id2label of config\.json must have the keys 0, 1"),
        ({"0": "a", "1": "a"}, r"config\.json names two labels alike"),
    ],
)
def test_labels_without_names_of_their_own_are_refused(tmp_path, id2label, words):
    shutil.copytree(FOLDER / "bert-label", tmp_path / "bert")
    huggingface_goldens.change_config(tmp_path / "bert", id2label=id2label)
    with pytest.raises(UserError, match=words):
        restore.label_names(restore.open_model(tmp_path / "bert"))


def test_a_family_with_a_vocabulary_of_its_own_has_that_file(tmp_path):
    """Marian's ids are those of a tokenizer.json that transformers writes."""
    shutil.copytree(FOLDER / "bert", tmp_path / "bert")
    model = restore.open_model(tmp_path / "bert")
    family = dataclasses.replace(model.family, tokenizer="tokenizer.json")
    with pytest.raises(UserError, match=r"bert has no tokenizer\.json; other files of"):
        restore.check_tokenizer(model._replace(family=family))


def test_choices_by_the_mean_of_states_are_refused(tmp_path):
    shutil.copytree(FOLDER / "modernbert-label", tmp_path / "bert")
    keys = {"architectures": ["ModernBertForMultipleChoice"]}
    huggingface_goldens.change_config(tmp_path / "bert", **keys)
    model = restore.open_model(tmp_path / "bert")
    mean = model._replace(config=model.config | {"classifier_pooling": "mean"})
    with pytest.raises(UserError, match="it reads choices by the mean of their states"):
        restore.head_keys(mean, "multiple_choice")


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({}, ""),
        ({"hidden_dropout_prob": 0.3}, ""),
        ({"num_attention_heads": 2}, r"heads 2, model\.head_width 8, but .* has 1, 16"),
        ({"layer_norm_eps": 1e-3}, r"model\.norm_epsilon 0\.001, but .* has 1e-12"),
        ({"hidden_act": "relu"}, r"model\.activation relu, but .* has gelu"),
    ],
)
def test_a_generator_is_the_one_that_a_run_has_beside_its_discriminator(
    keys, words, tmp_path
):
    for part in ("generator", "discriminator"):
        shutil.copytree(FOLDER / "electra-discriminator", tmp_path / part)
    own = {"num_attention_heads": 1, "intermediate_size": 64} | keys
    huggingface_goldens.change_config(tmp_path / "generator", **own)
    tensors = load_file(tmp_path / "generator" / WEIGHTS)
    for name, array in tensors.items():
        if name.endswith("intermediate.dense.weight"):
            tensors[name] = np.zeros((64, 16), array.dtype)
    save_file(tensors, tmp_path / "generator" / WEIGHTS)
    shapes = {"discriminator/token/embedding": (128, 16)}
    shapes["generator/stack/blocks/attention/out/bias"] = (3, 16)
    if not words:
        assert restore.restore(f"hf:{tmp_path}", "", shapes).params.keys() == {*shapes}
        return
    with pytest.raises(UserError, match=words):
        restore.restore(f"hf:{tmp_path}", "", shapes)


def test_a_model_of_a_hub_is_fetched_without_its_pickles(tmp_path, monkeypatch):
    with running_hub(monkeypatch, tmp_path / "cache") as hub:
        names = {*MODEL_FILES, "merges.txt", "vocab.json", MARIAN_FILE, "config.json"}
        main = dict.fromkeys([*names, "pytorch_model.bin"], b"main")
        branch = dict.fromkeys(names, b"branch")
        hub.repositories["some/bert"] = {"main": main, "chck_1M": branch}
        for source, content in (("", "main"), ("@chck_1M", "branch")):
            folder = restore.find_folder(f"hf:some/bert{source}")
            assert {path.name for path in folder.iterdir()} == names
            assert (folder / "config.json").read_text() == content
    with pytest.raises(UserError, match=r"could not be fetched \("):
        restore.find_folder("hf:another/bert")


def test_a_head_of_another_class_is_not_read():
    """A tagger's classifier.weight is no classifier of texts of as many labels."""
    model = restore.open_model(FOLDER / "bert-tags")
    shapes = {f"head_{name}/out/kernel": (16, 5) for name in ("tag", "label")}
    found = restore.restore_network(model, shapes, 0)
    assert [*found.params] == ["head_tag/out/kernel"]


@pytest.mark.parametrize(
    "keys",
    [
        {"summary_type": "first"},
        {"summary_use_proj": False},
        {"summary_activation": None},
    ],
)
def test_an_xlnet_that_reads_a_text_in_another_way_is_refused(keys, tmp_path):
    """Its classifiers read the last token by a layer with tanh here."""
    shutil.copytree(FOLDER / "xlnet-label", tmp_path / "xlnet")
    huggingface_goldens.change_config(tmp_path / "xlnet", **keys)
    (key,) = keys
    with pytest.raises(UserError, match=f"config.json: {key} is .*only"):
        restore.open_model(tmp_path / "xlnet")


def test_a_head_of_a_class_that_is_not_known_is_not_read(tmp_path):
    """LlamaForTokenClassification's score.weight is no classifier of texts."""
    folder, shapes = tmp_path / "llama-label", {"head_label/out/kernel": (16, 2)}
    shutil.copytree(FOLDER / "llama-label", folder)
    for name, is_read in (("Sequence", True), ("Token", False)):
        name = f"LlamaFor{name}Classification"
        huggingface_goldens.change_config(folder, architectures=[name])
        found = restore.restore_network(restore.open_model(folder), shapes, 0)
        assert bool(found.params) == is_read
        assert ("score.weight" in found.unused) != is_read


@pytest.mark.parametrize(
    ("name", "objective", "expected"),
    [
        ("modernbert-label", "sequence_classification", {"gelu_norm", "mean"}),
        ("modernbert-tags", "token_classification", {"gelu_norm"}),
        ("modernbert-span", "question_answering", {"gelu_norm"}),
        ("modernbert-label", "token_classification", set()),
        ("modernbert", "sequence_classification", set()),
        ("bert-label", "sequence_classification", set()),
    ],
)
def test_a_folder_says_how_its_head_reads(name, objective, expected):
    keys = restore.config_overrides(f"hf:{FOLDER / name}", objective)
    found = {value for key, value in keys.items() if key.startswith("objective.")}
    assert found == expected
