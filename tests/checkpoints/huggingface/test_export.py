"""What is exported is what was imported, byte for byte, or is refused in one line."""

import jax
import numpy as np
import pytest
from safetensors.numpy import load_file

from research.batch import VocabInfo
from research.checkpoints.checkpoint import path_name
from research.checkpoints.huggingface import export, restore
from research.checkpoints.huggingface.folder import CONFIG, WEIGHTS, read_json
from tests.testing import huggingface_goldens


def vocab_of(model):
    size = model.config["vocab_size"]
    special = np.arange(size) < 5
    ordinary = np.arange(5, size, dtype=np.int32)
    return VocabInfo(
        size, model.sizes.pad_id, 1, 2, 3, 4, (), special, ordinary, (), None, ordinary
    )


def network_of(golden, **changes):
    """The golden's network with its own parameters, before it is exported."""
    tree = huggingface_goldens.params_of(golden)
    leaves = jax.tree_util.tree_flatten_with_path(tree)[0]
    params = {path_name(path): np.asarray(leaf) for path, leaf in leaves}
    patterns, model = golden.model.family.patterns, golden.model
    fields = {
        "options": golden.network.options,
        "params": params,
        "pattern": patterns[0] if patterns else "",
        "vocab": vocab_of(model),
        "prefers": (model.family.model_type,),
    }
    return export.Network(**(fields | changes))


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
    copies = {*golden.model.family.copies}
    assert theirs.keys() - ours.keys() <= copies | huggingface_goldens.UNUSED
    assert ours.keys() <= theirs.keys()
    for key, array in ours.items():
        if "position_embeddings" in key or "embed_positions" in key:
            array, theirs[key] = array[2:], theirs[key][2:]  # no token has the others
        np.testing.assert_array_equal(array, theirs[key])
    config, expected = (
        read_json(path / CONFIG)
        for path in (tmp_path, huggingface_goldens.FOLDER / name)
    )
    for key in golden.model.family.keys:
        if expected.get(key.key) is not None:
            assert config[key.key] == expected[key.key]
    assert config["architectures"] == expected["architectures"]
