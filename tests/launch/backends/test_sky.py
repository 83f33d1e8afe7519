"""SkyPilot's own schemas accept the task files that are written for it.

SkyPilot requires an older click than requirements.txt has, so it needs an environment
of its own, with jsonschema, pyyaml, pytest and etils[epath]:
`python -m pytest --noconftest tests/launch/backends/test_sky.py`.
"""

from types import SimpleNamespace

import pytest
import yaml
from etils import epath

from launch.backends.attempt_log import Budget
from launch.backends.backend import load_backend
from launch.backends.resources import Resources


@pytest.mark.parametrize("on", ["sky", "sky:gcp/us-central2"])
@pytest.mark.parametrize(
    "resources",
    [
        Resources(),
        Resources(cpus=8),
        Resources(hosts=2, gpus=8),
        Resources(slice="v5p:4x4x8"),
    ],
    ids=str,
)
def test_skypilots_schemas_accept_a_task(on, resources):
    schemas = pytest.importorskip("sky.utils.schemas")
    jsonschema = pytest.importorskip("jsonschema")
    command = ["python", "-m", "launch.train", "--config=a.py"]
    folder = epath.Path("gs://bucket/runs/abc")
    job = SimpleNamespace(id="abc", name="lm", folder=folder, command=command)
    flags = {"sky.gpu": "H100", "sky.memory": "64+"} if resources.gpus else {}
    files = load_backend(on, resources, flags).render([[job]], Budget())
    task = yaml.safe_load(files["wave-0/abc.yaml"])
    jsonschema.validate(task, schemas.get_task_schema())
    jsonschema.validate(task["resources"], schemas.get_resources_schema())
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(task | {"nodes": 2}, schemas.get_task_schema())
