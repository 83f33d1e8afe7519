"""The manifests for GKE and SkyPilot are complete, by those programs' own schemas."""

import dataclasses
import math
import re
import shlex
import subprocess
from types import SimpleNamespace

import pytest
import yaml
from etils import epath

from launch import cli, sweep
from launch.backends import run_attempt
from launch.backends.attempt_log import Budget
from launch.backends.backend import load_backend
from launch.backends.resources import Resources
from launch.cli import main
from research.contract.errors import UserError
from research.record.workdir import write_result

BUDGET = Budget(preemptions=7, retries=2, round=3)
WAVE = re.compile(r"/wave-(\d+)/")
COMMAND = ["python", "-m", "launch.train", "--config=a.py", '--config.x={"a b": 1}']


def _job(name="abc", folder="gs://bucket/runs"):
    path = epath.Path(folder) / name
    return SimpleNamespace(id=name, name=f"lm {name}", folder=path, command=COMMAND)


def _render(on, resources=None, waves=None, **flags):
    backend = load_backend(on, resources or Resources(), flags)
    files = backend.render(waves or [[_job()]], BUDGET)
    return {name: list(yaml.safe_load_all(text)) for name, text in files.items()}


def _gke(resources=None, **flags):
    """The JobSet, its pod, and the queue's objects."""
    flags = {"image": "img"} | flags
    flags = {f"gke.{name}": value for name, value in flags.items()}
    files = _render("gke:team", resources, **flags)
    (job_set,) = files["wave-0/abc.yaml"]
    job = job_set["spec"]["replicatedJobs"][0]["template"]["spec"]
    return job_set, job, job["template"]["spec"], files["queue.yaml"]


RESOURCES = [
    Resources(),
    Resources(cpus=8, gpus=2),
    Resources(hosts=2, gpus=8),
    Resources(slice="v5e:2x4"),
    Resources(slice="v5e:16x16"),
    Resources(slice="v5p:4x4x8"),
]


@pytest.mark.parametrize("resources", RESOURCES, ids=str)
def test_a_job_set_has_a_pod_for_each_host_and_all_chips(resources):
    _, job, pod, queue = _gke(resources)
    assert job["parallelism"] == job["completions"] == resources.hosts
    limits = pod["containers"][0]["resources"]["limits"]
    chips = int(limits.get("google.com/tpu", 0)) * resources.hosts
    topology = resources.slice.partition(":")[2]
    shape = [int(size) for size in re.findall(r"\d+", topology)]
    assert chips == (math.prod(shape) if shape else 0)
    assert int(limits.get("nvidia.com/gpu", 0)) == resources.gpus
    flavor, cluster, local = queue
    (group,) = cluster["spec"]["resourceGroups"]
    assert set(group["coveredResources"]) == set(limits)
    assert group["flavors"][0]["name"] == flavor["metadata"]["name"]
    assert local["spec"]["clusterQueue"] == cluster["metadata"]["name"]
    selector = pod.get("nodeSelector", {})
    assert flavor["spec"].get("nodeLabels", {}) == selector


@pytest.mark.parametrize("resources", RESOURCES, ids=str)
def test_the_queue_has_the_fields_of_kueues_definitions(resources):
    """As its CustomResourceDefinitions of v1beta2 require them (config/components)."""
    flavor, cluster, local = _gke(resources, spot="yes")[-1]
    for kind, entry in {
        "ResourceFlavor": flavor, "ClusterQueue": cluster, "LocalQueue": local
    }.items():  # fmt: skip
        assert entry.keys() == {"apiVersion", "kind", "metadata", "spec"}
        assert (entry["apiVersion"], entry["kind"]) == ("kueue.x-k8s.io/v1beta2", kind)
        assert ("namespace" in entry["metadata"]) == (kind == "LocalQueue")
    labels = flavor["spec"]["nodeLabels"]
    assert flavor["spec"].keys() == {"nodeLabels"} and len(labels) <= 8
    assert all(isinstance(value, str) for value in labels.values())
    assert local["spec"].keys() == {"clusterQueue"}
    assert cluster["spec"].keys() == {"namespaceSelector", "resourceGroups"}
    (group,) = cluster["spec"]["resourceGroups"]
    assert group.keys() == {"coveredResources", "flavors"} and group["coveredResources"]
    (quota,) = group["flavors"]
    assert quota.keys() == {"name", "resources"} and len(quota["name"]) <= 253
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", quota["name"])
    assert [entry["name"] for entry in quota["resources"]] == group["coveredResources"]
    for entry in quota["resources"]:
        assert entry.keys() == {"name", "nominalQuota"}
        assert isinstance(entry["nominalQuota"], int) and entry["nominalQuota"] > 0


@pytest.mark.parametrize("resources", RESOURCES, ids=str)
def test_a_slice_of_several_hosts_runs_one_trial(resources):
    job_set, *_ = _gke(resources)
    keys = [key for key in job_set["metadata"]["annotations"] if "exclusive" in key]
    assert len(keys) == int(bool(resources.slice) and resources.hosts > 1)


@pytest.mark.parametrize("resources", RESOURCES, ids=str)
def test_a_pod_runs_an_attempt(resources):
    job_set, _, pod, _ = _gke(resources)
    words = pod["containers"][0]["command"]
    separator = words.index("--")
    assert words[separator + 1 :][: len(COMMAND)] == COMMAND
    added = words[separator + 1 + len(COMMAND) :]
    if resources.hosts > 1 and not resources.slice:
        name = job_set["metadata"]["name"]
        assert added[0] == f"--coordinator={name}-trial-0-0.{name}:8476"
        assert added[1:] == ["--num_processes=2", "--process_id=$(RANK)"]
    else:
        assert added == []
    flags = dict(word[2:].split("=", 1) for word in words[3:separator])
    assert flags.pop("folder") == "gs://bucket/runs/abc"
    assert flags.pop("attempt") == "3.$(RESTART)" and flags.pop("rank") == "$(RANK)"
    assert {k: int(v) for k, v in flags.items()} == dataclasses.asdict(BUDGET)
    names = {each["name"] for each in pod["containers"][0]["env"]}
    assert names == set(re.findall(r"\$\((\w+)\)", " ".join(words)))


def test_kubernetes_does_not_retry_deterministic_errors():
    job_set, job, pod, _ = _gke()
    policy = job_set["spec"]["failurePolicy"]
    assert policy["maxRestarts"] == 9 and policy["rules"][0]["action"] == "FailJobSet"
    assert job["backoffLimit"] == 0 and pod["restartPolicy"] == "Never"
    (rule,) = job["podFailurePolicy"]["rules"]
    no_retry = {cli.MISTAKE, cli.NON_FINITE, run_attempt.BUDGET_EXHAUSTED}
    assert set(rule["onExitCodes"]["values"]) == no_retry
    assert rule["onExitCodes"]["containerName"] == pod["containers"][0]["name"]


def test_a_pod_can_read_its_workdir():
    waves = [[_job(folder="/mnt/runs/mine")]]
    with pytest.raises(UserError, match="bucket"):
        _render("gke:team", waves=waves, **{"gke.image": "img"})
    flags = {"gke.image": "img", "gke.claim": "disk", "gke.mount": "/mnt/runs"}
    for outside in ("/mnt/runsEVIL/mine", "/mnt/runs/../../etc/mine"):
        with pytest.raises(UserError, match=r"under --gke\.mount"):
            _render("gke:team", waves=[[_job(folder=outside)]], **flags)
    (job_set,) = _render("gke:team", waves=waves, **flags)["wave-0/abc.yaml"]
    job = job_set["spec"]["replicatedJobs"][0]["template"]["spec"]
    pod = job["template"]["spec"]
    (volume,) = pod["volumes"]
    (mount,) = pod["containers"][0]["volumeMounts"]
    assert mount == {"name": volume["name"], "mountPath": "/mnt/runs"}


@pytest.mark.parametrize(
    "resources, name",
    [
        (Resources(slice="v5e:16x16"), "tpu-v5litepod-256"),
        (Resources(slice="v6e:2x2"), "tpu-v6e-4"),
        (Resources(slice="v5p:4x4x8"), "tpu-v5p-256"),
        (Resources(gpus=8, hosts=2), "H100:8"),
        (Resources(cpus=3), None),
    ],
)
def test_a_sky_task_requests_the_resources(resources, name):
    flags = {"sky.gpu": "H100"} if resources.gpus else {}
    (task,) = _render("sky:gcp", resources, **flags)["wave-0/abc.yaml"]
    assert task["resources"].get("accelerators") == name
    assert task["resources"]["job_recovery"] == {
        "max_restarts_on_errors": 2,
        "recover_on_exit_codes": [75],
    }
    line = task["run"].splitlines()[-1]
    words = shlex.split(line)
    assert words[0] == ".venv/bin/python"
    command = words[words.index("--") + 1 :]
    assert command[: len(COMMAND)] == COMMAND
    distributed = resources.hosts > 1 and not resources.slice
    assert ("--coordinator=$FIRST:8476" in command) == distributed
    known = {"SKYPILOT_NODE_RANK"} | set(re.findall(r"^(\w+)=", task["run"], re.M))
    assert set(re.findall(r"\$(\w+)", line)) <= known


def test_a_sky_task_runs_nothing_that_stands_in_an_override(tmp_path):
    job = _job()
    values = ["$(touch PWN)", "`touch PWN`", "$ATTEMPT", "it's; touch PWN", '"$HOME"']
    job.command = [*COMMAND, *(f"--config.data.corpus={value}" for value in values)]
    waves, flags = [[job]], {"sky.gpu": "H100"}
    resources = Resources(gpus=8, hosts=2)
    (task,) = _render("sky:gcp", resources, waves, **flags)["wave-0/abc.yaml"]
    script = task["run"].replace(".venv/bin/python", "printf '%s\\n'")
    variables = {"SKYPILOT_NODE_IPS": "1.2.3.4\n5.6.7.8", "SKYPILOT_NODE_RANK": "1"}
    done = subprocess.run(
        ["bash", "-c", script],
        env=variables | {"PATH": "/usr/bin:/bin", "SKYPILOT_TASK_ID": "t"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    words = done.stdout.splitlines()
    command = words[words.index("--") + 1 :]
    own = ["--coordinator=1.2.3.4:8476", "--num_processes=2", "--process_id=1"]
    assert command == [*job.command, *own]
    assert "--rank=1" in words and any(re.match(r"--attempt=3\.\d+$", w) for w in words)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "on, resources, flags, message",
    [
        ("gke", Resources(), {"gke.image": "x"}, "gke:QUEUE"),
        ("gke:q", Resources(), {}, "--gke.image"),
        ("gke:q", Resources(), {"gke.image": "x", "gke.spot": "maybe"}, "yes or no"),
        ("gke:q", Resources(), {"gke.image": "x", "gke.claim": "c"}, "--gke.mount"),
        ("sky", Resources(gpus=1), {}, "--sky.gpu"),
        ("sky", Resources(slice="tpu7x:2x2x1"), {}, "v5p"),
    ],
)
def test_a_wrong_flag_is_an_error(on, resources, flags, message):
    with pytest.raises(UserError, match=message):
        load_backend(on, resources, flags)


SWEEP = """
def sweep(scale):
    first = ("experiments/mlm.py", {"train.steps": 3})
    for seed in range(2):
        yield "experiments/lm.py", {"train.init_from": first, "seed": seed}
"""


def test_a_sweep_is_rendered_in_waves_and_resume_renders_the_rest(tmp_path, capsys):
    file, workdir = tmp_path / "sweep.py", tmp_path / "work"
    file.write_text(SWEEP)
    flags = [f"--workdir={workdir}", f"--sweep={file}", "--on=gke:team"]
    flags += ["--gke.image=img", "--gke.claim=disk", f"--gke.mount={tmp_path}"]

    def run(*words):
        with pytest.raises(SystemExit) as caught:
            main(sweep.run, sweep.parser(), list(words))
        assert caught.value.code == 0
        return capsys.readouterr().out

    assert run(*flags, "--dry_run").count("kind: JobSet") == 3
    assert not workdir.exists()
    out = run(*flags)
    waves = {path.name: len(list(path.iterdir())) for path in workdir.glob("gke/wave*")}
    assert waves == {"wave-0": 1, "wave-1": 2}
    assert out.index("wave-0/") < out.index("wave-1/") and "kubectl" in out
    (first,) = workdir.glob("gke/wave-0/*.yaml")
    (workdir / first.stem).mkdir()
    write_result(workdir / first.stem, {"metrics": {}})
    run("resume", f"--workdir={workdir}")
    (job_set, *_) = [
        yaml.safe_load(p.read_text()) for p in workdir.glob("gke/wave-0/*")
    ]
    assert job_set["metadata"]["name"].endswith("-2")
    assert not list(workdir.glob("gke/wave-1/*"))


@pytest.mark.parametrize("on", ["gke:team", "sky:gcp"])
def test_waves_are_run_in_the_order_of_their_numbers_when_others_are_done(on, tmp_path):
    for wave in range(11):
        (tmp_path / f"wave-{wave}").mkdir()
    flags = {"gke.image": "img"} if on.startswith("gke") else {}
    lines = load_backend(on, Resources(), flags).instructions(tmp_path)
    started = [int(found[1]) for line in lines if (found := WAVE.search(line))]
    assert started == [*range(11)]
    text = "\n".join(lines)
    waits = text.count("kubectl -n default wait") + text.count(
        "# when the jobs of wave"
    )
    assert waits == (11 if on.startswith("gke") else 10)
    if on.startswith("sky"):
        first, *_, before_last, _ = lines
        assert first.startswith("for task") and before_last.startswith("# when")
        assert "wave 9 are" in before_last


@pytest.mark.parametrize("resources", RESOURCES, ids=str)
def test_kubeflows_models_have_every_field_of_a_job_set(resources):
    models = pytest.importorskip("kubeflow_trainer_api.models")
    job_set, *_ = _gke(resources, spot="yes", service_account="writer")
    known = models.JobsetV1alpha2JobSet.from_dict(job_set)
    assert known.to_dict() == job_set
    job_set["spec"]["sucessPolicy"] = {"operator": "All"}
    assert models.JobsetV1alpha2JobSet.from_dict(job_set).to_dict() != job_set
