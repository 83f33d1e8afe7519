"""The contract of every backend of sweeps; modules are found by listing the folder."""

import dataclasses
import re
from types import SimpleNamespace

import pytest
import yaml
from etils import epath

from launch.backends.attempt_log import Budget
from launch.backends.backend import FOLDER, backend_flags, load_backend
from launch.backends.resources import Resources
from research.contract.errors import UserError

LOCATIONS = ("", "x", "//x")

each_backend = pytest.mark.parametrize("name", FOLDER.names())


def make(name):
    """The backend, at the first of the locations that it takes.

    It has the flags that its errors call missing.
    """
    locations, flags = iter(LOCATIONS), {}
    location = next(locations)
    while True:
        try:
            return load_backend(f"{name}:{location}", Resources(), flags)
        except UserError as error:
            if missing := re.match(rf"--({name}\.\w+) is missing", str(error)):
                assert missing[1] not in flags
                flags[missing[1]] = "x"
            else:
                assert f"--on={name}" in str(error)
                location = next(locations)


@each_backend
def test_its_fields_are_a_location_resources_and_flags_with_words_of_help(name):
    cls = FOLDER.part_class(name, "backend")
    assert dataclasses.is_dataclass(cls) and cls.__doc__
    fields = dataclasses.fields(cls)
    assert [field.name for field in fields[:2]] == ["location", "resources"]
    assert [*fields[2:]] == backend_flags(name)
    with pytest.raises(UserError, match="a flag of another backend"):
        load_backend(name, Resources(), {"other.flag": 1})


@each_backend
def test_it_starts_jobs_or_writes_files_from_which_they_are_started(
    name, monkeypatch, tmp_path
):
    """To ask for no jobs needs no program; each file has its job's whole command."""
    backend = make(name)
    if hasattr(backend, "submit"):
        assert not hasattr(backend, "render")
        assert backend.poll_interval_s > 0 and isinstance(backend.detached, bool)
        assert min(backend.default_parallel, backend.max_parallel) >= 0
        monkeypatch.setenv("PATH", "/nowhere")
        assert [*backend.alive([])] == []
        return
    command = ["python", "-m", "launch.train", '--config.x={"a b": 1}']
    folder = epath.Path("gs://bucket/runs")
    jobs = [
        SimpleNamespace(id=id, name=id, folder=folder / id, command=command)
        for id in ("one", "two")
    ]
    waves, budget = [jobs[:1], jobs[1:]], Budget(preemptions=7, retries=2)
    files = backend.render(waves, budget)
    assert files == make(name).render(waves, budget)
    for job in jobs:
        (file,) = (file for file in files if job.id in file)
        assert [*yaml.safe_load_all(files[file])]
        assert str(job.folder) in files[file] and "launch.train" in files[file]
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    lines = "\n".join(backend.instructions(tmp_path))
    assert f"{tmp_path}/wave-0" in lines and f"{tmp_path}/wave-1" in lines
