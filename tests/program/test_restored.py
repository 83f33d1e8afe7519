"""What opens a run refuses what the run did not write, and what has diverged."""

import json
import shutil
from functools import partial

import jax
import numpy as np
import pytest

from research.checkpoints.checkpoint import Checkpoints
from research.config.config import Config
from research.contract.errors import UserError
from research.data.tokenize.model_files import MODEL_FILES
from research.interop.partial_restore import load_on_host, restore_params, source_digest
from research.program.restored import restore_run, run_checkpoint
from research.use.export import export_run
from research.use.inference.open_run import open_run
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


def test_processes_compare_what_they_start_from(run, tmp_path, monkeypatch):
    """The checkpoint of a run, or the weights of a model; not the folder's name."""
    workdir, _ = run
    export_run(workdir, tmp_path / "model")
    assert source_digest(str(workdir)) == ""  # in one process
    monkeypatch.setattr(jax, "process_count", lambda: 2)
    for source, name in {
        "": "checkpoints/3/checksums.json",
        "hf:": "model.safetensors",
    }.items():
        path = tmp_path / "model" if source else workdir
        copy = shutil.copytree(path, tmp_path / f"copy of {path.name}")
        digest = source_digest(f"{source}{path}")
        assert source_digest(f"{source}{copy}") == digest
        content = (copy / name).read_bytes()
        other = content.replace(b'"', b' "', 1) if not source else content[:-1] + b"x"
        (copy / name).write_bytes(other)
        assert source_digest(f"{source}{copy}") != digest


@pytest.mark.parametrize("objective", ["wklm", "ernie2"])
def test_a_run_with_a_lexicon_opens(tmp_path, objective):
    """It scores and fills masks; without the file the message says what is gone."""
    folder = write_corpus(tmp_path)
    entries = [("river", "entity"), ("stone", "entity"), ("old river", "phrase")]
    entries += [("and", "connective"), ("by", "connective")]
    lines = "".join(f"{entry}\t{kind}\n" for entry, kind in entries)
    (tmp_path / "entries.tsv").write_text(lines)
    keys = {"data.lexicon": str(tmp_path / "entries.tsv"), "model.max_length": 40}
    config = tiny_config(folder, objective, **keys)
    workdir, *_ = save_untrained(folder / "run", config)
    assert (
        restore_run(Config.of(config), workdir).vocabulary.vocab.lexicon.size.size == 5
    )
    model = open_run(workdir)
    ((found,),) = model.fill(["the <mask> reads"], 1)
    assert found
    (tmp_path / "entries.tsv").unlink()
    with pytest.raises(UserError, match=r"data\.lexicon, which is empty or not there"):
        open_run(workdir)


def test_a_run_whose_tasks_vocabulary_is_not_saved_says_so(tmp_path):
    folder = write_corpus(tmp_path)
    config = tiny_config(
        folder,
        "bert",
        **{"model.max_length": 32, "data.task": f"{folder / 'corpus'}:mlm"},
    )
    workdir, *_ = save_untrained(folder / "run", config)
    assert open_run(workdir).run.vocabulary
    assert restore_run(Config.of(config), workdir).vocabulary
    for name in MODEL_FILES:
        (workdir / name).unlink(missing_ok=True)
    ways = WAYS["open_run"], WAYS["export_run"], partial(restore_run, config)
    for way in ways:
        with pytest.raises(UserError, match=r"a run does not save that of data\.task="):
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
