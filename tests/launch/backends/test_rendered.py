"""What is rendered for other programs says all there is, in those programs' words."""

import dataclasses
import math
import re
import shlex
from types import SimpleNamespace

import pytest
import yaml
from etils import epath

from launch import backends, cli, sweep
from launch.backends import run_attempt
from launch.backends.attempt_log import Budget
from launch.backends.resources import Need
from launch.cli import main
from research.errors import UserError

BUDGET = Budget(preemptions=7, retries=2, round=3)
WORDS = ["python", "-m", "launch.train", "--config=a.py", '--config.x={"a b": 1}']


def _task(name="abc", folder="gs://bucket/runs"):
    path = epath.Path(folder) / name
    return SimpleNamespace(id=name, name=f"lm {name}", folder=path, command=WORDS)


def _render(on, need=None, waves=None, **flags):
    engine = backends.load(on, need or Need(), flags)
    files = engine.render(waves or [[_task()]], BUDGET)
    return {name: list(yaml.safe_load_all(text)) for name, text in files.items()}


def _gke(need=None, **flags):
    """The JobSet, its pod, and the queue's objects."""
    flags = {"image": "img"} | flags
    told = {f"gke.{name}": value for name, value in flags.items()}
    files = _render("gke:team", need, **told)
    (found,) = files["wave-0/abc.yaml"]
    job = found["spec"]["replicatedJobs"][0]["template"]["spec"]
    return found, job, job["template"]["spec"], files["queue.yaml"]


NEEDS = [
    Need(),
    Need(cpus=8, gpus=2),
    Need(hosts=2, gpus=8),
    Need(slice="v5e:2x4"),
    Need(slice="v5e:16x16"),
    Need(slice="v5p:4x4x8"),
]


@pytest.mark.parametrize("need", NEEDS, ids=str)
def test_a_job_set_has_a_pod_a_host_and_all_its_chips(need):
    _, job, pod, queue = _gke(need)
    assert job["parallelism"] == job["completions"] == need.hosts
    limits = pod["containers"][0]["resources"]["limits"]
    chips = int(limits.get("google.com/tpu", 0)) * need.hosts
    shape = [int(size) for size in re.findall(r"\d+", need.topology)]
    assert chips == (math.prod(shape) if shape else 0)
    assert int(limits.get("nvidia.com/gpu", 0)) == need.gpus
    flavor, cluster, local = queue
    (group,) = cluster["spec"]["resourceGroups"]
    assert set(group["coveredResources"]) == set(limits)
    assert group["flavors"][0]["name"] == flavor["metadata"]["name"]
    assert local["spec"]["clusterQueue"] == cluster["metadata"]["name"]
    selector = pod.get("nodeSelector", {})
    assert flavor["spec"].get("nodeLabels", {}) == selector


@pytest.mark.parametrize("need", NEEDS, ids=str)
def test_the_queue_has_the_fields_of_kueues_definitions(need):
    """As its CustomResourceDefinitions of v1beta2 require them (config/components)."""
    flavor, cluster, local = _gke(need, spot="yes")[-1]
    for kind, one in {
        "ResourceFlavor": flavor, "ClusterQueue": cluster, "LocalQueue": local
    }.items():  # fmt: skip
        assert one.keys() == {"apiVersion", "kind", "metadata", "spec"}
        assert (one["apiVersion"], one["kind"]) == ("kueue.x-k8s.io/v1beta2", kind)
        assert ("namespace" in one["metadata"]) == (kind == "LocalQueue")
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
    assert [one["name"] for one in quota["resources"]] == group["coveredResources"]
    for one in quota["resources"]:
        assert one.keys() == {"name", "nominalQuota"}
        assert isinstance(one["nominalQuota"], int) and one["nominalQuota"] > 0


@pytest.mark.parametrize("need", NEEDS, ids=str)
def test_a_slice_of_several_hosts_is_shared_with_no_other_trial(need):
    found, *_ = _gke(need)
    keys = [key for key in found["metadata"]["annotations"] if "exclusive" in key]
    assert len(keys) == int(bool(need.slice) and need.hosts > 1)


@pytest.mark.parametrize("need", NEEDS, ids=str)
def test_a_pod_makes_an_attempt_at_the_trial_itself(need):
    found, _, pod, _ = _gke(need)
    words = pod["containers"][0]["command"]
    cut = words.index("--")
    assert words[cut + 1 :][: len(WORDS)] == WORDS
    told = words[cut + 1 + len(WORDS) :]
    if need.hosts > 1 and not need.slice:
        name = found["metadata"]["name"]
        assert told[0] == f"--coordinator={name}-trial-0-0.{name}:8476"
        assert told[1:] == ["--num_processes=2", "--process_id=$(RANK)"]
    else:
        assert told == []
    flags = dict(word[2:].split("=", 1) for word in words[3:cut])
    assert flags.pop("folder") == "gs://bucket/runs/abc"
    assert flags.pop("attempt") == "3.$(RESTART)" and flags.pop("rank") == "$(RANK)"
    assert {k: int(v) for k, v in flags.items()} == dataclasses.asdict(BUDGET)
    names = {each["name"] for each in pod["containers"][0]["env"]}
    assert names == set(re.findall(r"\$\((\w+)\)", " ".join(words)))


def test_kubernetes_ends_what_is_hopeless_and_restarts_the_rest():
    found, job, pod, _ = _gke()
    policy = found["spec"]["failurePolicy"]
    assert policy["maxRestarts"] == 9 and policy["rules"][0]["action"] == "FailJobSet"
    assert job["backoffLimit"] == 0 and pod["restartPolicy"] == "Never"
    (rule,) = job["podFailurePolicy"]["rules"]
    hopeless = {cli.MISTAKE, cli.NON_FINITE, run_attempt.GIVEN_UP}
    assert set(rule["onExitCodes"]["values"]) == hopeless
    assert rule["onExitCodes"]["containerName"] == pod["containers"][0]["name"]


def test_a_pod_sees_its_workdir():
    tasks = [[_task(folder="/mnt/runs/mine")]]
    with pytest.raises(UserError, match="bucket"):
        _render("gke:team", waves=tasks, **{"gke.image": "img"})
    flags = {"gke.image": "img", "gke.claim": "disk", "gke.mount": "/mnt/runs"}
    (found,) = _render("gke:team", waves=tasks, **flags)["wave-0/abc.yaml"]
    job = found["spec"]["replicatedJobs"][0]["template"]["spec"]
    pod = job["template"]["spec"]
    (volume,) = pod["volumes"]
    (place,) = pod["containers"][0]["volumeMounts"]
    assert place == {"name": volume["name"], "mountPath": "/mnt/runs"}


@pytest.mark.parametrize(
    "need, name",
    [
        (Need(slice="v5e:16x16"), "tpu-v5litepod-256"),
        (Need(slice="v6e:2x2"), "tpu-v6e-4"),
        (Need(slice="v5p:4x4x8"), "tpu-v5p-256"),
        (Need(gpus=8, hosts=2), "H100:8"),
        (Need(cpus=3), None),
    ],
)
def test_a_sky_task_asks_for_what_is_needed(need, name):
    flags = {"sky.gpu": "H100"} if need.gpus else {}
    (task,) = _render("sky:gcp", need, **flags)["wave-0/abc.yaml"]
    assert task["resources"].get("accelerators") == name
    assert task["resources"]["job_recovery"] == {
        "max_restarts_on_errors": 2,
        "recover_on_exit_codes": [75],
    }
    line = task["run"].splitlines()[-1]
    words = shlex.split(line)
    assert words[0] == ".venv/bin/python"
    told = words[words.index("--") + 1 :]
    assert told[: len(WORDS)] == WORDS
    assert ("--coordinator=$FIRST:8476" in told) == (need.hosts > 1 and not need.slice)
    known = {"SKYPILOT_NODE_RANK"} | set(re.findall(r"^(\w+)=", task["run"], re.M))
    assert set(re.findall(r"\$(\w+)", line)) <= known


@pytest.mark.parametrize(
    "on, need, flags, said",
    [
        ("gke", Need(), {"gke.image": "x"}, "gke:QUEUE"),
        ("gke:q", Need(), {}, "--gke.image"),
        ("gke:q", Need(), {"gke.image": "x", "gke.spot": "maybe"}, "yes or no"),
        ("gke:q", Need(), {"gke.image": "x", "gke.claim": "c"}, "--gke.mount"),
        ("sky", Need(gpus=1), {}, "--sky.gpu"),
        ("sky", Need(slice="tpu7x:2x2x1"), {}, "v5p"),
    ],
)
def test_what_is_missing_is_told(on, need, flags, said):
    with pytest.raises(UserError, match=said):
        backends.load(on, need, flags)


SWEEP = """
def sweep(scale):
    first = ("experiments/mlm.py", {"train.steps": 3})
    for seed in range(2):
        yield "experiments/lm.py", {"train.init_from": first, "seed": seed}
"""


def test_a_sweep_is_rendered_in_waves_and_resumed_in_fewer(tmp_path, capsys):
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
    (workdir / first.stem / "result.json").write_text('{"metrics": {}}')
    run("resume", f"--workdir={workdir}")
    (found, *_) = [yaml.safe_load(p.read_text()) for p in workdir.glob("gke/wave-0/*")]
    assert found["metadata"]["name"].endswith("-2")
    assert not list(workdir.glob("gke/wave-1/*"))


@pytest.mark.parametrize("need", NEEDS, ids=str)
def test_kubeflows_models_know_every_word_of_a_job_set(need):
    models = pytest.importorskip("kubeflow_trainer_api.models")
    found, *_ = _gke(need, spot="yes", service_account="writer")
    known = models.JobsetV1alpha2JobSet.from_dict(found)
    assert known.to_dict() == found
    found["spec"]["sucessPolicy"] = {"operator": "All"}
    assert models.JobsetV1alpha2JobSet.from_dict(found).to_dict() != found
