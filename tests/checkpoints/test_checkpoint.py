"""Checkpoints: what is unfinished or damaged is not read; a full disk loses nothing."""

import contextlib
import resource
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from research.checkpoints import checksums
from research.checkpoints.checkpoint import Checkpoints, finished
from research.checkpoints.partial_restore import initial_params
from research.errors import UserError
from research.run.state import State

FACTS = {"seconds": 1.5, "vocabulary": "v"}


def mesh(count=1):
    return jax.make_mesh((count,), ("data",), devices=jax.devices()[:count])


def state(step, devices=1):
    """A state whose every number depends on the step; its rows lie over devices."""
    rows = NamedSharding(mesh(devices), P("data"))
    whole = NamedSharding(mesh(devices), P())
    table = jax.random.normal(jax.random.key(step), (64, 80))
    bias = jax.device_put(jnp.full(5, step, jnp.float32), whole)
    params = {"table": jax.device_put(table, rows), "bias": bias}
    rest = jax.device_put(((params["table"] * 2,), {"m": jnp.ones(3) * step}), whole)
    return State(jax.device_put(jnp.int32(step), whole), params, rest, (), {"a": bias})


def abstract(of):
    return jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding), of
    )


def same(a, b):
    jax.tree.map(np.testing.assert_array_equal, a, b)


@contextlib.contextmanager
def opened(workdir, keep=3):
    checkpoints = Checkpoints(workdir, keep=keep)
    yield checkpoints
    checkpoints.close()


@pytest.fixture
def workdir(tmp_path):
    """A run's folder with checkpoints of steps 1, 2 and 3."""
    with opened(tmp_path) as checkpoints:
        for step in (1, 2, 3):
            checkpoints.save(step, state(step), FACTS | {"step": step})
    return tmp_path


def restored(workdir):
    with opened(workdir) as checkpoints:
        return checkpoints.restore(abstract(state(0)))


def test_the_newest_comes_back_bit_for_bit(workdir):
    found = restored(workdir)
    assert found.step == 3 and found.facts == FACTS | {"step": 3}
    same(found.state, state(3))


@pytest.mark.parametrize(("before", "after"), [(8, 4), (4, 2), (1, 8)])
def test_it_comes_back_on_other_devices(tmp_path, before, after):
    with opened(tmp_path) as checkpoints:
        checkpoints.save(7, state(7, before), FACTS)
        checkpoints.wait()
        found = checkpoints.restore(abstract(state(0, after)))
    same(found.state, state(7))
    assert found.state.params["table"].sharding.num_devices == after


def test_the_newest_few_are_kept(workdir):
    with opened(workdir, keep=2) as checkpoints:
        checkpoints.save(4, state(4), FACTS)
        checkpoints.wait()
        assert list(finished(checkpoints.folder)) == [4, 3]
        assert sorted(p.name for p in checkpoints.folder.iterdir()) == ["3", "4"]


def harm(path, how):
    content = path.read_bytes()
    if how == "missing":
        path.unlink()
    elif how == "truncated":
        path.write_bytes(content[: len(content) // 2])
    else:
        middle = len(content) // 2
        flipped = bytes([content[middle] ^ 1])
        path.write_bytes(content[:middle] + flipped + content[middle + 1 :])


@pytest.mark.parametrize("how", ["missing", "truncated", "flipped"])
def test_damage_to_any_file_is_found_and_named(workdir, how):
    whole = workdir / "checkpoints" / "3"
    names = [
        str(path.relative_to(whole))
        for path in whole.rglob("*")
        if path.is_file() and path.name not in checksums.LATE
    ]
    assert len(names) > 10 and not checksums.damage(whole)
    for name in names:
        shutil.copytree(whole, workdir / "copy")
        harm(workdir / "copy" / name, how)
        found = checksums.damage(workdir / "copy")
        assert found if name == checksums.FILE else name in found
        shutil.rmtree(workdir / "copy")


@pytest.mark.parametrize("how", ["missing", "truncated", "flipped"])
def test_the_one_before_a_damaged_one_is_read(workdir, how, capsys):
    folder = workdir / "checkpoints"
    data = max((folder / "3" / "params").rglob("*"), key=lambda p: p.stat().st_size)
    harm(data, how)
    found = restored(workdir)
    assert found.step == 2
    same(found.state, state(2))
    line = capsys.readouterr().err
    assert "checkpoints/3 is damaged" in line and data.name in line
    assert sorted(p.name for p in folder.iterdir()) == ["1", "2", "3.damaged"]
    with opened(workdir) as checkpoints:  # it can be saved again
        checkpoints.save(3, state(3), FACTS)
    assert restored(workdir).step == 3


def test_without_a_whole_one_nothing_is_begun_anew(workdir):
    for step in (1, 2, 3):
        harm(workdir / "checkpoints" / str(step) / "rest" / "_METADATA", "flipped")
    for _ in range(2):  # and not the second time either
        with pytest.raises(
            UserError, match=r"no checkpoint that can be read .*damaged"
        ):
            restored(workdir)


def test_what_is_unfinished_is_never_read(workdir):
    folder = workdir / "checkpoints"
    shutil.copytree(folder / "3", folder / "5.orbax-checkpoint-tmp")
    (folder / "2").rename(folder / "2.deleted")  # killed while deleting
    with opened(workdir) as checkpoints:
        assert checkpoints.latest() == 3
        assert sorted(p.name for p in checkpoints.folder.iterdir()) == ["1", "3"]
    assert restored(workdir).step == 3


def test_nothing_saved_is_nothing_restored(tmp_path):
    assert restored(tmp_path) is None


def test_another_model_is_refused(workdir):
    other = state(0)._replace(params={"table": jnp.zeros((64, 81))})
    words = r"another model: bias has shape \(5,\)"
    with opened(workdir) as checkpoints, pytest.raises(UserError, match=words):
        checkpoints.restore(abstract(other))


@contextlib.contextmanager
def small_files(limit):
    """No file may grow past `limit` bytes, as if the disk were full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_full_disk_is_one_line_and_loses_nothing(workdir):
    checkpoints = Checkpoints(workdir, keep=3)
    words = r"step 4 could not be saved .*; step 3 is saved"
    with small_files(4096), pytest.raises(UserError, match=words):
        checkpoints.save(4, state(4), FACTS)
        checkpoints.wait()
    found = restored(workdir)
    assert found.step == 3
    same(found.state, state(3))


def test_another_run_starts_from_the_newest_whole_one(workdir, capsys):
    harm(workdir / "checkpoints" / "3" / "params" / "_METADATA", "truncated")
    fresh = state(9, devices=4).params | {"new": jnp.zeros(2)}
    params, stayed = initial_params(str(workdir), "", fresh, vocabulary="v")
    same(params["table"], state(2).params["table"])
    assert stayed == ["new"] and params["table"].sharding.num_devices == 4
    assert "checkpoints/3 is damaged" in capsys.readouterr().err
    assert (workdir / "checkpoints" / "3").exists()  # it is another's
