"""Checkpoints: unfinished or damaged ones are not read; a full disk loses nothing."""

import contextlib
import errno
import json
import os
import resource
import shutil
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from etils import epath
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from research.checkpoints.checkpoint import Checkpoints, finished_steps
from research.contract.errors import UserError
from research.contract.state import State
from research.files import checksums
from research.files.paths import LiteralPath
from research.interop.partial_restore import (
    check_source,
    find_checkpoint,
    restore_params,
)
from tests.files.test_paths import FOLDERS
from tests.testing import fake_bucket
from tests.testing.alarm import ends_within

FACTS = {"seconds": 1.5, "vocabulary": "v"}


def mesh(count=1):
    return jax.make_mesh((count,), ("data",), devices=jax.devices()[:count])


def make_state(step, devices=1):
    """A state whose every number depends on the step, with rows over `devices`."""
    rows = NamedSharding(mesh(devices), P("data"))
    replicated = NamedSharding(mesh(devices), P())
    table = jax.random.normal(jax.random.key(step), (64, 80))
    bias = jax.device_put(jnp.full(5, step, jnp.float32), replicated)
    params = {"table": jax.device_put(table, rows), "bias": bias}
    moments = (params["table"] * 2,), {"m": jnp.ones(3) * step}
    opt_state = jax.device_put(moments, replicated)
    step = jax.device_put(jnp.int32(step), replicated)
    return State(step, params, opt_state, (), {"a": bias})


def abstract(state):
    return jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding), state
    )


def assert_equal(a, b):
    jax.tree.map(np.testing.assert_array_equal, a, b)


@contextlib.contextmanager
def open_checkpoints(workdir, keep=3):
    checkpoints = Checkpoints(workdir, keep=keep)
    yield checkpoints
    checkpoints.close()


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """The workdir of a run with checkpoints of steps 1, 2 and 3."""
    folder = tmp_path_factory.mktemp("saved")
    with open_checkpoints(folder) as checkpoints:
        for step in (1, 2, 3):
            checkpoints.save(step, make_state(step), FACTS | {"step": step})
    return folder


@pytest.fixture
def workdir(saved, tmp_path):
    """A copy of it."""
    shutil.copytree(saved, tmp_path, dirs_exist_ok=True)
    return tmp_path


def restore(workdir):
    with open_checkpoints(workdir) as checkpoints:
        return checkpoints.restore(abstract(make_state(0)))


def test_the_newest_is_restored_bit_for_bit(workdir):
    found = restore(workdir)
    assert found.step == 3 and found.facts == FACTS | {"step": 3}
    assert_equal(found.state, make_state(3))


@pytest.mark.parametrize("name", FOLDERS)
def test_any_name_of_a_folder_above_keeps_all_arrays(name, tmp_path):
    with open_checkpoints(tmp_path / name) as checkpoints:
        checkpoints.save(1, make_state(1), FACTS)
    assert_equal(restore(tmp_path / name).state, make_state(1))
    params, _ = restore_params(
        str(tmp_path / name), "", make_state(9).params, vocabulary="v"
    )
    assert_equal(params, make_state(1).params)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_checkpoint_whose_arrays_cannot_be_read_back_is_not_saved(
    workdir, monkeypatch
):
    """As where Orbax joins nothing, since it finds no parts of the arrays."""
    checkpoints = Checkpoints(workdir, keep=3)
    monkeypatch.setattr(LiteralPath, "glob", lambda self, pattern: iter(()))
    checkpoints.save(4, make_state(4), FACTS)
    with pytest.raises(UserError, match=r"checkpoints/4.* cannot be read \("):
        checkpoints.wait()
    assert next(finished_steps(workdir / "checkpoints")) == 3


def test_another_vocabulary_is_refused_where_a_parameter_has_its_rows(tmp_path):
    """The names are those of this run, of which the source gives some."""
    state = make_state(3)
    params = {"token": {"scale": state.params["bias"]}, "stack": {"one": state.params}}
    with open_checkpoints(tmp_path) as checkpoints:
        saved = state._replace(params=params, opt_state=({"mu": params},))
        checkpoints.save(3, saved, FACTS | {"step": 3})
    source, scope, initial = str(tmp_path), "stack/one", make_state(9).params
    name, *_ = initial
    restore = partial(restore_params, source, scope, initial)
    for of_vocabulary in (None, {name}):
        with pytest.raises(UserError, match="trained on another vocabulary"):
            restore(vocabulary="w", of_vocabulary=of_vocabulary)
    found, _ = restore(vocabulary="w", of_vocabulary={"token/scale", "other"})
    assert_equal(found, state.params)
    assert check_source(source, scope, initial, vocabulary="w", of_vocabulary=())
    with pytest.raises(UserError, match="trained on another vocabulary"):
        check_source(source, scope, initial, vocabulary="w")


@pytest.mark.parametrize(("before", "after"), [(8, 4), (4, 2), (1, 8)])
def test_it_is_restored_on_other_devices(tmp_path, before, after):
    with open_checkpoints(tmp_path) as checkpoints:
        checkpoints.save(7, make_state(7, before), FACTS)
        checkpoints.wait()
        found = checkpoints.restore(abstract(make_state(0, after)))
    assert_equal(found.state, make_state(7))
    assert found.state.params["table"].sharding.num_devices == after


def test_a_renamed_checkpoint_is_refused(workdir):
    folder = workdir / "checkpoints"
    (folder / "3").rename(folder / "500")
    with pytest.raises(UserError, match=r"500 holds step 3; rename it back"):
        restore(workdir)


def test_the_newest_few_are_kept(workdir):
    with open_checkpoints(workdir, keep=2) as checkpoints:
        checkpoints.save(4, make_state(4), FACTS)
        checkpoints.wait()
        assert list(finished_steps(checkpoints.folder)) == [4, 3]
        assert sorted(p.name for p in checkpoints.folder.iterdir()) == ["3", "4"]


def damage(path, how):
    content = path.read_bytes()
    if how == "missing":
        path.unlink()
    elif how == "truncated":
        path.write_bytes(content[: len(content) // 2])
    else:
        middle = len(content) // 2
        flipped = bytes([content[middle] ^ 1])
        path.write_bytes(content[:middle] + flipped + content[middle + 1 :])


def test_the_best_and_the_named_steps_are_kept_however_old_they_are(workdir):
    """And the best is restored, unless it is damaged."""
    with open_checkpoints(workdir, keep=1) as checkpoints:
        checkpoints.best, checkpoints.kept_steps = 1, {2}
        checkpoints.save(4, make_state(4), FACTS)
        best = checkpoints.restore_best(abstract(make_state(0)))
        assert list(finished_steps(checkpoints.folder)) == [4, 2, 1]
        assert_equal(best, make_state(1))
        damage(checkpoints.folder / "1" / "params" / "manifest.ocdbt", "flipped")
        with pytest.raises(UserError, match="1, the best checkpoint, is damaged: "):
            checkpoints.restore_best(abstract(make_state(0)))


@pytest.mark.parametrize("how", ["missing", "truncated", "flipped"])
def test_damage_to_any_file_is_found_and_named(workdir, how):
    intact = workdir / "checkpoints" / "3"
    names = [
        str(path.relative_to(intact))
        for path in intact.rglob("*")
        if path.is_file() and path.name not in checksums.UNCHECKED_FILES
    ]
    assert len(names) > 10 and not checksums.find_damage(intact)
    for name in names:
        shutil.copytree(intact, workdir / "copy")
        damage(workdir / "copy" / name, how)
        found = checksums.find_damage(workdir / "copy")
        assert found if name == checksums.CHECKSUMS_FILE else name in found
        shutil.rmtree(workdir / "copy")


@pytest.mark.parametrize("content", ["", "{}", "[1]", '{"x": 1}', '{"x": ["a", "b"]}'])
def test_checksums_that_are_none_are_damage(workdir, content):
    folder = workdir / "checkpoints" / "3"
    (folder / checksums.CHECKSUMS_FILE).write_text(content)
    assert checksums.CHECKSUMS_FILE in checksums.find_damage(folder)


@pytest.mark.parametrize("content", ['{"item_handlers": 3}', "[" * 9999])
def test_a_damaged_file_without_checksum_is_named(workdir, content):
    path = workdir / "checkpoints" / "3" / checksums.UNCHECKED_FILES[0]
    path.write_text(content)
    with pytest.raises(UserError, match=f"{path.name} is damaged, delete it"):
        restore(workdir)


def test_a_pipe_in_place_of_a_file_without_checksum_is_not_waited_for(workdir):
    path = workdir / "checkpoints" / "3" / checksums.UNCHECKED_FILES[0]
    path.unlink()
    os.mkfifo(path)
    with (
        pytest.raises(UserError, match=f"{path.name} is damaged, delete it"),
        ends_within(30),
    ):
        restore(workdir)


@pytest.mark.parametrize("how", ["missing", "truncated", "flipped"])
def test_the_one_before_a_damaged_one_is_restored(workdir, how, capsys):
    folder = workdir / "checkpoints"
    data = max((folder / "3" / "params").rglob("*"), key=lambda p: p.stat().st_size)
    damage(data, how)
    found = restore(workdir)
    assert found.step == 2
    assert_equal(found.state, make_state(2))
    line = capsys.readouterr().err
    assert "checkpoints/3 is damaged" in line and data.name in line
    assert sorted(p.name for p in folder.iterdir()) == ["1", "2", "3.damaged"]
    with open_checkpoints(workdir) as checkpoints:  # it can be saved again
        checkpoints.save(3, make_state(3), FACTS)
    assert restore(workdir).step == 3


def test_if_all_are_damaged_training_does_not_start_again(workdir):
    for step in (1, 2, 3):
        damage(workdir / "checkpoints" / str(step) / "rest" / "_METADATA", "flipped")
    for _ in range(2):  # and not the second time either
        with pytest.raises(
            UserError, match=r"no checkpoint that can be read .*damaged"
        ):
            restore(workdir)


def test_unfinished_ones_are_never_restored(workdir):
    folder = workdir / "checkpoints"
    shutil.copytree(folder / "3", folder / "5.orbax-checkpoint-tmp")
    (folder / "2").rename(folder / "2.deleted")  # killed while deleting
    with open_checkpoints(workdir) as checkpoints:
        assert checkpoints.latest() == 3
        assert sorted(p.name for p in checkpoints.folder.iterdir()) == ["1", "3"]
    assert restore(workdir).step == 3


@pytest.fixture
def bucket(tmp_path, monkeypatch):
    """The folder of a run in a bucket, with checkpoints of steps 1 to 3, two kept.

    Where it is on this machine, and its name in the bucket.
    """
    folder = fake_bucket.install(monkeypatch, tmp_path) / "bucket" / "run"
    with open_checkpoints("gs://bucket/run", keep=2) as checkpoints:
        for step in (1, 2, 3):
            checkpoints.save(step, make_state(step), FACTS | {"step": step})
    return folder / "checkpoints", "gs://bucket/run"


def test_checkpoints_in_a_bucket_are_finished_kept_and_restored(bucket):
    folder, workdir = bucket
    assert sorted(path.name for path in folder.iterdir()) == ["2", "3"]
    assert list(finished_steps(epath.Path(workdir) / "checkpoints")) == [3, 2]
    found = restore(workdir)
    assert found.step == 3
    assert_equal(found.state, make_state(3))
    assert str(find_checkpoint(workdir)) == f"{workdir}/checkpoints/3"
    damage(folder / "3" / "params" / "_METADATA", "truncated")
    assert restore(workdir).step == 2


@pytest.mark.parametrize("left", ["files", "files and checksums"])
def test_a_save_to_a_bucket_that_was_killed_is_no_damage(left, bucket, capsys):
    """Its folder has the final name, but lacks the files that come last."""
    folder, workdir = bucket
    (folder / "3" / checksums.COMMITTED_FILE).unlink()
    if left == "files":
        (folder / "3" / checksums.CHECKSUMS_FILE).unlink()
    assert list(finished_steps(epath.Path(workdir) / "checkpoints")) == [2]
    with open_checkpoints(workdir) as checkpoints:
        step = checkpoints.restore(abstract(make_state(0))).step
        assert step == (2 if left == "files" else 3)
        checkpoints.save(step + 1, make_state(step + 1), FACTS | {"step": step + 1})
    assert restore(workdir).step == step + 1
    assert not capsys.readouterr().err


def test_without_a_checkpoint_nothing_is_restored(tmp_path):
    assert restore(tmp_path) is None


def test_another_model_is_refused(workdir):
    other = make_state(0)._replace(params={"table": jnp.zeros((64, 81))})
    words = r"another model: bias has shape \(5,\)"
    with (
        open_checkpoints(workdir) as checkpoints,
        pytest.raises(UserError, match=words),
    ):
        checkpoints.restore(abstract(other))


@contextlib.contextmanager
def limited_file_size(limit):
    """No file may grow past `limit` bytes: a stand-in for a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_full_disk_is_a_user_error_and_loses_nothing(workdir):
    checkpoints = Checkpoints(workdir, keep=3)
    words = r"step 4 could not be saved .* goes on from step 3"
    with limited_file_size(4096), pytest.raises(UserError, match=words):
        checkpoints.save(4, make_state(4), FACTS)
        checkpoints.wait()
    found = restore(workdir)
    assert found.step == 3
    assert_equal(found.state, make_state(3))


@pytest.mark.parametrize("code", [errno.ENOENT, errno.ENOTEMPTY])
def test_what_a_failed_save_left_is_deleted_while_its_threads_end(
    code, tmp_path, monkeypatch
):
    left = tmp_path / "checkpoints" / "4.orbax-checkpoint-tmp"
    left.mkdir(parents=True)
    rmtree, failures = shutil.rmtree, iter([OSError(code, "a thread was faster")])

    def interrupted(*args, **keys):
        for error in failures:
            raise error
        rmtree(*args, **keys)

    monkeypatch.setattr(shutil, "rmtree", interrupted)
    with open_checkpoints(tmp_path):
        assert not left.exists()


@pytest.mark.parametrize("last, words", [(3, ""), (4, "step 4, whose checkpoint is")])
def test_a_missing_last_checkpoint_of_a_finished_run_is_told(
    last, words, workdir, capsys
):
    result = {"steps": last, "best_step": 0}
    (workdir / "result.json").write_text(json.dumps(result))
    assert find_checkpoint(workdir).name == "3"
    told = capsys.readouterr().err
    assert words in told and bool(told) == bool(words)


def test_another_run_starts_from_the_newest_undamaged_one(workdir, capsys):
    damage(workdir / "checkpoints" / "3" / "params" / "_METADATA", "truncated")
    initial = make_state(9, devices=4).params | {"new": jnp.zeros(2)}
    params, missing = restore_params(str(workdir), "", initial, vocabulary="v")
    assert_equal(params["table"], make_state(2).params["table"])
    assert missing == ["new"] and params["table"].sharding.num_devices == 4
    assert "checkpoints/3 is damaged" in capsys.readouterr().err
    assert (workdir / "checkpoints" / "3").exists()  # it belongs to another run
