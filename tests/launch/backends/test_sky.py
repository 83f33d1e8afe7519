"""SkyPilot's own schemas allow what is rendered for it.

SkyPilot wants an older click than the lock has, so it goes into an environment of its
own, with jsonschema, pyyaml, pytest and etils[epath]:
`python -m pytest --noconftest tests/launch/backends/test_sky.py`.
"""

from types import SimpleNamespace

import pytest
import yaml
from etils import epath

from launch import backends
from launch.backends.attempt_log import Budget
from launch.backends.resources import Need


@pytest.mark.parametrize("on", ["sky", "sky:gcp/us-central2"])
@pytest.mark.parametrize(
    "need",
    [Need(), Need(cpus=8), Need(hosts=2, gpus=8), Need(slice="v5p:4x4x8")],
    ids=str,
)
def test_skypilots_schemas_allow_a_task(on, need):
    schemas = pytest.importorskip("sky.utils.schemas")
    jsonschema = pytest.importorskip("jsonschema")
    words = ["python", "-m", "launch.train", "--config=a.py"]
    folder = epath.Path("gs://bucket/runs/abc")
    task = SimpleNamespace(id="abc", name="lm", folder=folder, command=words)
    flags = {"sky.gpu": "H100", "sky.memory": "64+"} if need.gpus else {}
    files = backends.load(on, need, flags).render([[task]], Budget())
    found = yaml.safe_load(files["wave-0/abc.yaml"])
    jsonschema.validate(found, schemas.get_task_schema())
    jsonschema.validate(found["resources"], schemas.get_resources_schema())
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(found | {"nodes": 2}, schemas.get_task_schema())
