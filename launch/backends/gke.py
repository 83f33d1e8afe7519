"""Manifests for a GKE cluster with JobSet and Kueue: written here, run by kubectl."""

import dataclasses
import os
import re
from collections.abc import Sequence
from typing import Any

import yaml
from etils import epath

from launch.backends import Need, Task, option, run_attempt
from launch.backends.attempt_log import HOPELESS, Budget
from research.errors import UserError

ACCELERATORS = {
    "v4": "tpu-v4-podslice",
    "v5e": "tpu-v5-lite-podslice",
    "v5p": "tpu-v5p-slice",
    "v6e": "tpu-v6e-slice",
    "tpu7x": "tpu7x",
}
"""Values of GKE's node label cloud.google.com/gke-tpu-accelerator."""

LABEL = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
"""What Kubernetes takes for a label's value."""

PORT = 8476
"""On which process 0 listens, where GKE itself tells no cluster."""

ALONE = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "cloud.google.com/gke-nodepool"}
"""One job a node pool: a slice is one, and another trial's pods would break it up."""

RESTART = "metadata.annotations['jobset.sigs.k8s.io/restart-attempt']"
RANK = "metadata.annotations['batch.kubernetes.io/job-completion-index']"


@dataclasses.dataclass
class Engine:
    """A task is a JobSet of one Indexed job, a pod a host, in Kueue's local queue.

    A pod that fails fails its job, and JobSet starts all pods anew: lost machines and
    failures alike. What would only fail again (exit codes 2, 3 and 4) ends the JobSet.
    """

    where: str  # the local queue
    need: Need
    image: str = option("", "the container: this program at its working directory")
    namespace: str = option("default", "of queue and trials")
    spot: str = option("no", "yes: on machines that may be taken away")
    claim: str = option("", "a volume claim that holds the workdir; not for a bucket")
    mount: str = option("", "the path at which that volume appears")
    service_account: str = option("", "Kubernetes' account that may write the bucket")
    quota: int = option(0, "chips, GPUs or cores of the rendered queue; 0: one trial's")
    grace: int = option(120, "seconds for a pod to save itself")

    def __post_init__(self):
        if not self.where:
            raise UserError("--on=gke lacks a queue: --on=gke:QUEUE")
        if not self.image:
            raise UserError("--gke.image is missing: a container of this program")
        if self.spot not in ("yes", "no"):
            raise UserError(f"--gke.spot={self.spot}: it is yes or no")
        if bool(self.claim) != bool(self.mount):
            raise UserError("--gke.claim and --gke.mount go together")

    def render(self, waves: Sequence[Sequence[Task]], budget: Budget) -> dict[str, str]:
        files = {"queue.yaml": _yaml(*self._queue())}
        for number, tasks in enumerate(waves):
            for task in tasks:
                self._check(task)
                name = f"wave-{number}/{task.id}.yaml"
                files[name] = _yaml(self._job_set(task, budget, number))
        return files

    def advice(self, folder: epath.PathLike) -> list[str]:
        folder = epath.Path(folder)
        lines = [f"kubectl apply -f {folder}/queue.yaml  # once, as its administrator"]
        for wave in sorted(path.name for path in folder.glob("wave-*")):
            number = wave.removeprefix("wave-")
            lines.append(f"kubectl apply -f {folder}/{wave}/")
            labels = f"palimpsest/sweep={folder.parent.name},palimpsest/wave={number}"
            lines.append(
                f"kubectl -n {self.namespace} wait jobset -l {labels} "
                "--for=condition=Completed --timeout=-1s"
            )
        return lines

    def _check(self, task: Task) -> None:
        folder, sweep = os.fspath(task.folder), task.folder.parent.name
        if not LABEL.fullmatch(sweep):
            raise UserError(
                f"--workdir=.../{sweep}: its last part becomes a label, of at "
                "most 63 letters, digits, '-', '_' and '.'"
            )
        if "://" not in folder and not (self.mount and folder.startswith(self.mount)):
            raise UserError(
                f"--workdir={folder}: pods see a bucket (gs://...), or what lies under "
                "--gke.mount of --gke.claim"
            )

    def _job_set(self, task: Task, budget: Budget, wave: int) -> dict[str, Any]:
        name = f"palimpsest-{task.id}-{budget.round}"
        labels = {"kueue.x-k8s.io/queue-name": self.where}
        labels |= {"palimpsest/sweep": task.folder.parent.name}
        labels |= {"palimpsest/wave": str(wave)}
        annotations = {"palimpsest/trial": task.name}
        if self.need.slice and self.need.hosts > 1:
            annotations |= ALONE
        hopeless = {
            "action": "FailJob",
            "onExitCodes": {
                "containerName": "trial",
                "operator": "In",
                "values": [*HOPELESS, run_attempt.GIVEN_UP],
            },
        }
        job = {
            "parallelism": self.need.hosts,
            "completions": self.need.hosts,
            "completionMode": "Indexed",
            "backoffLimit": 0,
            "podFailurePolicy": {"rules": [hopeless]},
            "template": {"spec": self._pod(task, budget, name)},
        }
        rule = {
            "name": "hopeless",
            "action": "FailJobSet",
            "onJobFailureReasons": ["PodFailurePolicy"],
        }
        return {
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "metadata": {
                "name": name,
                "namespace": self.namespace,
                "labels": labels,
                "annotations": annotations,
            },
            "spec": {
                "failurePolicy": {
                    "maxRestarts": budget.preemptions + budget.retries,
                    "rules": [rule],
                },
                "replicatedJobs": [
                    {"name": "trial", "replicas": 1, "template": {"spec": job}}
                ],
            },
        }

    def _pod(self, task: Task, budget: Budget, name: str) -> dict[str, Any]:
        words = run_attempt.command(
            self._told(task.command, name),
            task.folder,
            budget,
            attempt=f"{budget.round}.$(RESTART)",
            rank="$(RANK)",
        )
        needs = self._resources()
        container = {
            "name": "trial",
            "image": self.image,
            "command": words,
            "env": [
                {"name": "RESTART", "valueFrom": {"fieldRef": {"fieldPath": RESTART}}},
                {"name": "RANK", "valueFrom": {"fieldRef": {"fieldPath": RANK}}},
            ],
            "resources": {"requests": needs, "limits": dict(needs)},
        }
        pod = {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": self.grace,
            "containers": [container],
        }
        if self._nodes():
            pod["nodeSelector"] = self._nodes()
        if self.service_account:
            pod["serviceAccountName"] = self.service_account
        if self.claim:
            volume = {"claimName": self.claim}
            pod["volumes"] = [{"name": "runs", "persistentVolumeClaim": volume}]
            container["volumeMounts"] = [{"name": "runs", "mountPath": self.mount}]
        return pod

    def _told(self, words: Sequence[str], name: str) -> list[str]:
        """A command of several hosts, which a TPU slice finds by itself."""
        if self.need.hosts == 1 or self.need.slice:
            return list(words)
        return [
            *words,
            f"--coordinator={name}-trial-0-0.{name}:{PORT}",
            f"--num_processes={self.need.hosts}",
            "--process_id=$(RANK)",
        ]

    def _resources(self) -> dict[str, str]:
        """Of a pod."""
        if self.need.slice:
            return {"google.com/tpu": str(self.need.chips)}
        found = {"cpu": self.need.cpus, "nvidia.com/gpu": self.need.gpus}
        return {name: str(number) for name, number in found.items() if number}

    def _nodes(self) -> dict[str, str]:
        """GKE's labels of the nodes that serve."""
        prefix, labels = "cloud.google.com/gke", {}
        if self.need.slice:
            accelerator = ACCELERATORS[self.need.generation]
            labels[f"{prefix}-tpu-accelerator"] = accelerator
            labels[f"{prefix}-tpu-topology"] = self.need.topology
        if self.spot == "yes":
            labels[f"{prefix}-spot"] = "true"
        return labels

    def _queue(self) -> list[dict[str, Any]]:
        """Kueue's objects for a cluster that has none yet."""
        flavor = self.need.slice.replace(":", "-") or "default-flavor"
        quotas = [
            {"name": name, "nominalQuota": self.quota or int(number) * self.need.hosts}
            for name, number in self._resources().items()
        ]
        group = {
            "coveredResources": list(self._resources()),
            "flavors": [{"name": flavor, "resources": quotas}],
        }
        labels = self._nodes()
        specs = {
            "ResourceFlavor": (flavor, {"nodeLabels": labels} if labels else {}),
            "ClusterQueue": (
                self.where,
                {"namespaceSelector": {}, "resourceGroups": [group]},
            ),
            "LocalQueue": (self.where, {"clusterQueue": self.where}),
        }
        objects = []
        for kind, (name, spec) in specs.items():
            metadata = {"name": name}
            if kind == "LocalQueue":
                metadata["namespace"] = self.namespace
            head = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind}
            objects.append(head | {"metadata": metadata, "spec": spec})
        return objects


def _yaml(*documents: dict[str, Any]) -> str:
    return yaml.safe_dump_all(documents, sort_keys=False, width=1000)
