"""What a sweep's files tell: status, logs, resume and stop need no driver."""

import json
import time

import pytest

from launch import sweep
from launch.backends import scheduler
from launch.backends.backend import absolute_path
from launch.cli import main
from launch.sweeps import trials
from tests.testing import fake_backend

SWEEP = """
def sweep(scale):
    first = ("experiments/mlm.py", {"train.steps": 3})
    for seed in range(2):
        yield "experiments/lm.py", {"train.init_from": first, "seed": seed}
    yield "experiments/lm.py", {"train.steps": 7}
"""


@pytest.fixture
def engine(monkeypatch):
    return fake_backend.install(monkeypatch)


@pytest.fixture
def do(tmp_path, engine, capsys):
    """do(*words) -> exit code, stdout, stderr; a first word may be an action."""
    file = tmp_path / "sweep.py"
    file.write_text(SWEEP)

    def do(*words):
        words = [*words, f"--workdir={tmp_path / 'work'}"]
        if words[0].startswith("-"):
            words += [f"--sweep={file}", "--on=fake"]
        with pytest.raises(SystemExit) as caught:
            main(sweep.run, sweep.parser(), words)
        return caught.value.code, *capsys.readouterr()

    do.workdir = tmp_path / "work"
    return do


def test_a_preemption_costs_no_retry(do, engine):
    _, codes = engine
    codes.update({0: 75, 1: fake_backend.LOST, 2: 75})
    code, out, _ = do("--retries=0")
    assert code == 0 and "4 of 4" in out
    assert len(engine[0]) == 4 + 3


def test_preemptions_have_an_end(do, engine):
    started, codes = engine
    codes.update(dict.fromkeys(range(3), 75))
    code, _, err = do("--retries=9", "--preemptions=2")
    assert code == 1 and "error: mlm: preempted" in err
    assert len(started) == 3 + 1  # the one that needs nobody


@pytest.mark.parametrize("code", [2, 3])
def test_what_would_only_fail_again_is_not_tried_again(do, engine, code):
    started, codes = engine
    codes[0] = code
    assert do("--retries=9")[0] == 1
    assert started.count(started[0]) == 1


def test_a_job_that_never_begins_is_a_failure(do, engine):
    started, codes = engine
    codes.update({0: fake_backend.NEVER_STARTED, 1: fake_backend.NEVER_STARTED})
    assert do("--retries=1")[0] == 1
    assert started.count(started[0]) == 2
    assert do("--retries=0")[0] == 0


def test_resume_goes_on_as_the_sweep_was_started(do, engine):
    codes = engine[1]
    codes[1] = 130  # while the second trial runs
    assert do("--parallel=2", "--fake.colour=red", "--config.model.layers=3")[0] == 130
    assert not scheduler.read_handles(absolute_path(do.workdir))
    codes.clear()
    before = [trial.id for trial in trials.read(do.workdir)]
    code, out, _ = do("resume")
    assert code == 0 and "4 of 4" in out
    assert [trial.id for trial in trials.read(do.workdir)] == before
    head = trials.header(do.workdir)
    assert head["round"] == 2 and head["flags"] == {"fake.colour": "red"}
    assert {t.config["model.layers"] for t in trials.read(do.workdir)} == {3}


def test_resume_tries_a_mistake_once_more(do, engine):
    started, codes = engine
    codes.update({0: 2, 1: 2})
    assert do("--retries=0")[0] == 1
    assert do("resume")[0] == 0
    assert len(started) == 2 + 4


def test_jobs_of_an_engine_that_outlives_its_driver_are_adopted(do, engine):
    started, codes = engine
    fake_backend.Backend.detached = True
    codes[1] = 130
    assert do("--parallel=2")[0] == 130
    left = scheduler.read_handles(absolute_path(do.workdir))
    assert 1 in [json.loads(job)[0] for job in left.values()]
    codes.clear()
    assert do("resume")[0] == 0
    assert len(started) == 4


def test_status_tells_each_state_without_a_driver(do, engine):
    codes = engine[1]
    fake_backend.Backend.detached = True
    codes.update({0: 2, 1: 130})
    do("--retries=0", "--parallel=2")
    code, out, _ = do("status")
    assert code == 0
    head, *rows = out.splitlines()
    assert "on fake: 0 of 4" in head and "nobody drives it" in head
    states = {row.split()[0]: row.split()[1] for row in rows}
    first, child, other, last = trials.read(do.workdir)
    assert states[first.id] == "failed" and states[last.id] == "queued"
    assert states[child.id] == states[other.id] == "waiting"
    assert "exit code 2" in rows[0] and str(first.folder) in rows[0]
    assert "for mlm" in out
    file = last.folder / "attempts/00001.0.json"
    process = json.loads(file.read_text()) | {"heartbeat": time.time(), "host": "here"}
    file.write_text(json.dumps(process))
    (last.folder / "metrics.jsonl").write_text('{"step": 5}\n')
    row = do("status")[1].splitlines()[4]
    assert row.split()[1] == "running" and "step 5 of 7, on here" in row


def test_status_while_it_runs_names_the_driver(do, engine):
    codes = engine[1]
    codes[0] = 2
    do()
    with scheduler.only_driver(absolute_path(do.workdir)):
        assert "driven by process" in do("status")[1]
        assert do("resume")[0] == 2


def test_logs_are_those_of_what_has_no_result_or_is_named(do, engine):
    codes = engine[1]
    codes[0] = 2
    do("--retries=0")
    _, out, _ = do("logs", "--lines=1")
    assert out.count("==>") == 1 and "some line" not in out and "the last line" in out
    last = trials.read(do.workdir)[-1]
    assert last.done
    for name in (last.id[:6], "steps=7"):
        assert "some line" in do("logs", f"--trial={name}", "--lines=0")[1]
    assert do("logs", "--trial=nobody")[0] == 2


def test_stop_ends_what_was_handed_over(do, engine):
    codes = engine[1]
    fake_backend.Backend.detached = True
    codes[0] = 130
    do()
    assert fake_backend.Backend.num_alive == 1
    assert do("stop")[0] == 0
    assert fake_backend.Backend.num_alive == 0
    assert "queued" not in do("status")[1]


@pytest.mark.parametrize(
    "words, said",
    [
        (("statsu",), "did you mean status"),
        (("status",), "holds no sweep"),
        (("resume",), "holds no sweep"),
        (("resume", "--config.seed=1"), "--config"),
        (("--retries=-1",), "--retries"),
        (("--gpus=-1",), "--gpus"),
        (("--slice=v5e",), "v5e:16x16"),
        (("--fake.color=x",), "--fake.colour"),
    ],
)
def test_a_mistake_is_one_line(do, words, said):
    code, _, err = do(*words)
    assert code == 2 and said in err and err.count("\n") == 1
