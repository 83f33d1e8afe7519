"""Reports: the configs of a group are compared, and provenance shows every value."""

from launch.reports import report
from launch.sweeps import sweep_plan
from research.record.workdir import write_result
from tests.testing import fake_sweep


def test_equal_and_varied_keys_are_those_of_the_configs(tmp_path):
    fake_sweep.finished(tmp_path)
    rows = fake_sweep.rows(sweep_plan.read_plan(tmp_path))
    for group in report.compare_configs(rows):
        members = {row: rows[row].get(group.name, []) for row in rows}
        configs = [trial.config for row in members.values() for trial in row]
        for key in {key for config in configs for key in config} - {"train.init_from"}:
            alike = all(config.get(key) == configs[0].get(key) for config in configs)
            assert (key in group.equal) == alike
            assert (key in group.varied) != alike
            for row, values in group.varied.get(key, {}).items():
                has = [t.config[key] for t in members[row] if key in t.config]
                assert values == list(dict.fromkeys(has))


def test_provenance_shows_every_value(tmp_path):
    planned = fake_sweep.finished(tmp_path)
    result = planned[0].result
    result["provenance"]["commit"] = "other"
    write_result(planned[0].folder, result)
    facts = report.provenance(fake_sweep.rows(sweep_plan.read_plan(tmp_path)))
    assert set(facts["commit"].split("; ")) == {"abc", "other"}
    assert facts["packages"] == "jax 1"
