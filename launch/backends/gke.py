"""A GKE cluster with JobSet and Kueue, --on=gke:QUEUE: manifests for kubectl."""

import dataclasses
import os
import re
import shlex
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any

import yaml
from etils import epath

from launch.backends import run_attempt
from launch.backends.attempt_log import NO_RETRY_CODES, Budget
from launch.backends.backend import Job, flag, wave_folders
from launch.backends.resources import Resources
from research.contract.errors import UserError
from research.files.paths import is_in_bucket

ACCELERATORS = {
    "v4": "tpu-v4-podslice",
    "v5e": "tpu-v5-lite-podslice",
    "v5p": "tpu-v5p-slice",
    "v6e": "tpu-v6e-slice",
    "tpu7x": "tpu7x",
}
"""TPU generation -> value of GKE's node label cloud.google.com/gke-tpu-accelerator."""

LABEL_VALUE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
"""The label values that Kubernetes accepts."""

COORDINATOR_PORT = 8476
"""The port of process 0 in jobs without a TPU; on a slice GKE configures it."""

EXCLUSIVE = {
    "alpha.jobset.sigs.k8s.io/exclusive-topology": "cloud.google.com/gke-nodepool"
}
"""Annotation: a node pool, which is one slice, runs one JobSet at a time.

Without it, pods of several trials could share a slice, and none would have it whole.
"""

RESTART = "metadata.annotations['jobset.sigs.k8s.io/restart-attempt']"
RANK = "metadata.annotations['batch.kubernetes.io/job-completion-index']"


@dataclasses.dataclass
class Backend:
    """A job is a JobSet of one Indexed Job, with a pod for each host, in Kueue's queue.

    A pod that fails makes its Job fail, and JobSet restarts all pods, after a lost
    machine as after a failure. Exit codes 2, 3 and 4 end the JobSet: a retry would fail
    again.
    """

    location: str  # Kueue's local queue
    resources: Resources
    image: str = flag("", "the container: this program at its working directory")
    namespace: str = flag("default", "of queue and trials")
    spot: str = flag("no", "yes: on spot machines, which may be preempted")
    claim: str = flag("", "a volume claim that holds the workdir; not for a bucket")
    mount: str = flag("", "the path at which that volume is mounted")
    service_account: str = flag("", "Kubernetes' account that may write the bucket")
    quota: int = flag(0, "chips, GPUs or cores of the rendered queue; 0: one trial's")
    grace: int = flag(120, "seconds for a pod to save itself")

    def __post_init__(self):
        if not self.location:
            raise UserError("--on=gke lacks a queue: --on=gke:QUEUE")
        if not self.image:
            raise UserError("--gke.image is missing: a container of this program")
        if self.spot not in ("yes", "no"):
            raise UserError(f"--gke.spot={self.spot}: it is yes or no")
        if bool(self.claim) != bool(self.mount):
            raise UserError("--gke.claim and --gke.mount go together")

    def render(self, waves: Sequence[Sequence[Job]], budget: Budget) -> dict[str, str]:
        files = {"queue.yaml": _to_yaml(*self._queue_objects())}
        for wave, jobs in enumerate(waves):
            for job in jobs:
                self._check(job)
                manifest = self._job_set(job, budget, wave)
                files[f"wave-{wave}/{job.id}.yaml"] = _to_yaml(manifest)
        return files

    def instructions(self, folder: epath.PathLike) -> list[str]:
        folder = epath.Path(folder)
        quoted = shlex.quote(str(folder))
        lines = [f"kubectl apply -f {quoted}/queue.yaml  # once, as its administrator"]
        for wave in wave_folders(folder):
            lines.append(f"kubectl apply -f {quoted}/wave-{wave}/")
            labels = f"palimpsest/sweep={folder.parent.name},palimpsest/wave={wave}"
            lines.append(
                f"kubectl -n {self.namespace} wait jobset -l {labels} "
                "--for=condition=Completed --timeout=-1s"
            )
        return lines

    def _check(self, job: Job) -> None:
        """Raises UserError: the workdir's name is no label, or pods cannot reach it."""
        folder, sweep = os.fspath(job.folder), job.folder.parent.name
        if not LABEL_VALUE.fullmatch(sweep):
            raise UserError(
                f"--workdir=.../{sweep}: its last part becomes a label, of at "
                "most 63 letters, digits, '-', '_' and '.'"
            )
        path = PurePosixPath(os.path.normpath(folder))
        mounted = self.mount and path.is_relative_to(self.mount)
        if not is_in_bucket(folder) and not mounted:
            raise UserError(
                f"--workdir={folder}: pods can read a bucket (gs://...), or a path "
                "under --gke.mount of --gke.claim"
            )

    def _job_set(self, job: Job, budget: Budget, wave: int) -> dict[str, Any]:
        name = f"palimpsest-{job.id}-{budget.round}"
        labels = {"kueue.x-k8s.io/queue-name": self.location}
        labels |= {"palimpsest/sweep": job.folder.parent.name}
        labels |= {"palimpsest/wave": str(wave)}
        annotations = {"palimpsest/trial": job.name}
        if self.resources.slice and self.resources.hosts > 1:
            annotations |= EXCLUSIVE
        fail_job = {
            "action": "FailJob",
            "onExitCodes": {
                "containerName": "trial",
                "operator": "In",
                "values": [*NO_RETRY_CODES, run_attempt.BUDGET_EXHAUSTED],
            },
        }
        job_spec = {
            "parallelism": self.resources.hosts,
            "completions": self.resources.hosts,
            "completionMode": "Indexed",
            "backoffLimit": 0,
            "podFailurePolicy": {"rules": [fail_job]},
            "template": {"spec": self._pod(job, budget, name)},
        }
        fail_job_set = {
            "name": "noRetry",
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
                    "rules": [fail_job_set],
                },
                "replicatedJobs": [
                    {"name": "trial", "replicas": 1, "template": {"spec": job_spec}}
                ],
            },
        }

    def _pod(self, job: Job, budget: Budget, name: str) -> dict[str, Any]:
        command = run_attempt.attempt_command(
            self._distributed_command(job.command, name),
            job.folder,
            budget,
            attempt=f"{budget.round}.$(RESTART)",
            rank="$(RANK)",
        )
        resources = self._pod_resources()
        container = {
            "name": "trial",
            "image": self.image,
            "command": command,
            "env": [
                {"name": "RESTART", "valueFrom": {"fieldRef": {"fieldPath": RESTART}}},
                {"name": "RANK", "valueFrom": {"fieldRef": {"fieldPath": RANK}}},
            ],
            "resources": {"requests": resources, "limits": dict(resources)},
        }
        pod = {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": self.grace,
            "containers": [container],
        }
        if self._node_labels():
            pod["nodeSelector"] = self._node_labels()
        if self.service_account:
            pod["serviceAccountName"] = self.service_account
        if self.claim:
            volume = {"claimName": self.claim}
            pod["volumes"] = [{"name": "runs", "persistentVolumeClaim": volume}]
            container["volumeMounts"] = [{"name": "runs", "mountPath": self.mount}]
        return pod

    def _distributed_command(self, command: Sequence[str], name: str) -> list[str]:
        """The command with flags for several processes, which TPUs do not need."""
        if self.resources.hosts == 1 or self.resources.slice:
            return list(command)
        return [
            *command,
            f"--coordinator={name}-trial-0-0.{name}:{COORDINATOR_PORT}",
            f"--num_processes={self.resources.hosts}",
            "--process_id=$(RANK)",
        ]

    def _pod_resources(self) -> dict[str, str]:
        """The resources of a pod, by Kubernetes' names."""
        if self.resources.slice:
            return {"google.com/tpu": str(self.resources.chips)}
        counts = {"cpu": self.resources.cpus, "nvidia.com/gpu": self.resources.gpus}
        return {name: str(count) for name, count in counts.items() if count}

    def _node_labels(self) -> dict[str, str]:
        """GKE's labels of the nodes that can run a job."""
        prefix, labels = "cloud.google.com/gke", {}
        tpu_slice = self.resources.tpu_slice
        if tpu_slice:
            accelerator = ACCELERATORS[tpu_slice.generation]
            labels[f"{prefix}-tpu-accelerator"] = accelerator
            labels[f"{prefix}-tpu-topology"] = tpu_slice.topology
        if self.spot == "yes":
            labels[f"{prefix}-spot"] = "true"
        return labels

    def _queue_objects(self) -> list[dict[str, Any]]:
        """Kueue's objects, for a cluster that does not have them yet."""
        flavor = self.resources.slice.replace(":", "-") or "default-flavor"
        quotas = [
            {
                "name": name,
                "nominalQuota": self.quota or int(count) * self.resources.hosts,
            }
            for name, count in self._pod_resources().items()
        ]
        group = {
            "coveredResources": list(self._pod_resources()),
            "flavors": [{"name": flavor, "resources": quotas}],
        }
        labels = self._node_labels()
        specs = {
            "ResourceFlavor": (flavor, {"nodeLabels": labels} if labels else {}),
            "ClusterQueue": (
                self.location,
                {"namespaceSelector": {}, "resourceGroups": [group]},
            ),
            "LocalQueue": (self.location, {"clusterQueue": self.location}),
        }
        objects = []
        for kind, (name, spec) in specs.items():
            metadata = {"name": name}
            if kind == "LocalQueue":
                metadata["namespace"] = self.namespace
            header = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind}
            objects.append(header | {"metadata": metadata, "spec": spec})
        return objects


def _to_yaml(*documents: dict[str, Any]) -> str:
    return yaml.safe_dump_all(documents, sort_keys=False, width=1000)
