"""What opens a run refuses what the run did not write, and what has diverged."""

import json
from functools import partial

import jax
import numpy as np
import pytest

from research.checkpoints.checkpoint import Checkpoints
from research.checkpoints.partial_restore import load_on_host, restore_params
from research.data.tokenizers.model_files import MODEL_FILES
from research.errors import UserError
from research.inference.open_run import open_run
from research.run.export import export_run
from research.run.restored import restore_run, run_checkpoint
from tests.testing.tiny_runs import save_untrained, tiny_config, write_corpus

WAYS = {
    "open_run": open_run,
    "run_checkpoint": run_checkpoint,
    "export_run": lambda workdir: export_run(workdir, workdir / "exported"),
}


@pytest.fixture
def run(tmp_path):
    """The workdir of a run of BERT, and its state."""
    folder = write_corpus(tmp_path)
    config = tiny_config(folder, "bert", **{"model.max_length": 32})
    return save_untrained(folder / "run", config)[:2]


def edit(workdir, section, **keys):
    path = workdir / "config.json"
    content = json.loads(path.read_text())
    content[section] |= keys
    path.write_text(json.dumps(content))


@pytest.mark.parametrize("way", WAYS)
def test_a_config_that_was_edited_is_refused(run, way):
    workdir, _ = run
    edit(workdir, "train", keep_checkpoints=7)
    assert run_checkpoint(workdir)[0].name == "3"
    edit(workdir, "model", norm_epsilon=0.5)
    with pytest.raises(UserError, match=r"config\.json was changed .* bring it back"):
        WAYS[way](workdir)


def test_a_run_whose_tasks_vocabulary_is_not_saved_says_so(tmp_path):
    folder = write_corpus(tmp_path)
    config = tiny_config(
        folder,
        "bert",
        **{"model.max_length": 32, "data.task": f"{folder / 'corpus'}:mlm"},
    )
    workdir, *_ = save_untrained(folder / "run", config)
    assert open_run(workdir).run.vocabulary
    assert restore_run(config, workdir).vocabulary
    for name in MODEL_FILES:
        (workdir / name).unlink(missing_ok=True)
    ways = WAYS["open_run"], WAYS["export_run"], partial(restore_run, config)
    for way in ways:
        with pytest.raises(UserError, match=r"data\.task=.* is not saved with a run"):
            way(workdir)


def test_parameters_that_are_not_finite_are_refused(run):
    workdir, state = run
    checkpoints = Checkpoints(workdir, keep=2)
    facts = load_on_host(checkpoints.folder / "3", "facts")["facts"]
    params = jax.tree.map(lambda leaf: leaf, state.params)
    params["token"]["embedding"] = params["token"]["embedding"].at[2, 1].set(np.nan)
    checkpoints.save(4, state._replace(params=params), facts | {"step": 4})
    checkpoints.close()
    words = "4: token/embedding has numbers that are not finite"
    for way in (WAYS["open_run"], WAYS["export_run"]):
        with pytest.raises(UserError, match=words):
            way(workdir)
    with pytest.raises(UserError, match=words):
        restore_params(str(workdir), "", state.params, vocabulary=facts["vocabulary"])
