"""MLflow: `train.track=mlflow:EXPERIMENT`.

MLFLOW_TRACKING_URI names the server or folder, as for any program that uses it.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from etils import epath

from research.record import trackers

ID_TAG = "palimpsest.run"


class Tracker(trackers.Tracker):
    """A run of an experiment, found again by its tag."""

    package: ClassVar[str] = "mlflow"
    requires: ClassVar[str] = "mlflow-skinny>=3.0"

    def __init__(self, project: str, workdir: epath.Path, config: Mapping[str, Any]):
        import mlflow

        self._client = mlflow.MlflowClient()
        own_id = trackers.run_id(project, workdir)
        experiment = self._client.get_experiment_by_name(project)
        experiment_id = (
            experiment.experiment_id
            if experiment
            else self._client.create_experiment(project)
        )
        earlier = self._client.search_runs(
            [experiment_id], f"tags.`{ID_TAG}` = '{own_id}'"
        )
        if earlier:
            self._run_id = earlier[0].info.run_id
            self._client.update_run(self._run_id, status="RUNNING")
            return
        run = self._client.create_run(
            experiment_id, run_name=workdir.name, tags={ID_TAG: own_id}
        )
        self._run_id = run.info.run_id
        for key, value in config.items():
            self._client.log_param(self._run_id, key, value)

    def write(self, step: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self._client.log_metric(self._run_id, name, value, step=step)

    def write_table(
        self, step: int, name: str, columns: Sequence[str], rows: Sequence[list[str]]
    ) -> None:
        table = {"columns": [*columns], "data": [*rows]}
        self._client.log_dict(self._run_id, table, f"{name}-{step}.json")

    def close(self) -> None:
        self._client.set_terminated(self._run_id)
