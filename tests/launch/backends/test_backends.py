"""Attempts at a job: their records, exit codes and budget; resources of a job."""

import dataclasses
import errno
import itertools
import subprocess
import sys
import textwrap
import threading
import time

import pytest
from etils import epath

from launch import cli
from launch.backends import attempt_log, run_attempt
from launch.backends.attempt_log import Attempt, Budget, ProcessRecord
from launch.backends.backend import load_backend
from launch.backends.resources import Resources
from research.contract.errors import UserError
from tests.testing.script_jobs import wait_until

NO_RETRY = Budget(preemptions=0, retries=0)


@pytest.fixture
def folder(tmp_path):
    return epath.Path(tmp_path / "job")


def _python(code: str) -> list[str]:
    return ["python", "-c", textwrap.dedent(code)]


def _record(exit_code, *, number=0, rank=0):
    return ProcessRecord(
        attempt=f"{number:03d}",
        rank=rank,
        round=1,
        host="host",
        pid=1,
        started=number,
        heartbeat=number,
        exit_code=exit_code,
    )


def _attempts(*codes):
    return [Attempt((_record(code, number=n),)) for n, code in enumerate(codes)]


@pytest.mark.parametrize(
    "code, exit_code",
    [("0", 0), ("3", 3), ("os.kill(os.getpid(), 9)", 137), ("undefined", 1)],
)
def test_an_attempt_writes_a_log_and_a_record(folder, code, exit_code):
    words = _python(f"import os, sys; print('hello', flush=True); sys.exit({code})")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "metrics.jsonl").write_text('{"step": 5}\n{"step": 7}\n')
    assert run_attempt.run(words, folder, NO_RETRY) == exit_code
    (attempt,) = attempt_log.read_attempts(folder)
    (process,) = attempt.processes
    assert process.exit_code == exit_code and process.ended >= process.started
    assert process.step == 7 and process.process_start
    assert not attempt.alive and not run_attempt.is_running(folder)
    first, *rest = run_attempt.log_path(folder).read_text().splitlines()
    assert first.startswith("---") and rest[0] == "hello"


def test_an_attempt_beyond_the_budget_does_not_run_the_command(folder):
    words = _python(
        f"open({str(folder / 'ran')!r}, 'a').write('x'); raise SystemExit(1)"
    )
    budget = Budget(retries=2)
    codes = [run_attempt.run(words, folder, budget) for _ in range(5)]
    assert codes == [
        1,
        1,
        1,
        run_attempt.BUDGET_EXHAUSTED,
        run_attempt.BUDGET_EXHAUSTED,
    ]
    assert (folder / "ran").read_text() == "xxx"
    assert run_attempt.run(words, folder, Budget(retries=2, round=2)) == 1


def test_an_attempt_after_the_clock_was_set_back_is_the_last(folder, monkeypatch):
    now = time.time()
    assert run_attempt.run(_python("raise SystemExit(3)"), folder, NO_RETRY) == 3
    monkeypatch.setattr(time, "time", lambda: now - 86_400)
    assert run_attempt.run(_python("0"), folder, Budget(round=2)) == 0
    *_, last = attempt_log.read_attempts(folder)
    assert last.processes[0].exit_code == 0
    record = dataclasses.replace(_record(None), heartbeat=now)  # it died before
    assert (
        not record.alive and dataclasses.replace(record, heartbeat=now - 86_400).alive
    )


def test_heartbeats_go_on_when_the_clock_is_set_back(folder, monkeypatch):
    clock = itertools.count(1e9, -3600)
    monkeypatch.setattr(time, "time", lambda: next(clock))
    monkeypatch.setattr(attempt_log, "HEARTBEAT_INTERVAL_S", 0.0)
    run_attempt.run(_python("import time; time.sleep(0.5)"), folder, NO_RETRY)
    (process,) = attempt_log.read_attempts(folder)[0].processes
    assert process.heartbeat < process.started


def test_a_heartbeat_that_cannot_be_written_does_not_end_the_command(
    folder, monkeypatch
):
    write, tried = ProcessRecord.write, []

    def write_first_and_last(record, folder):
        tried.append(record)
        if len(tried) > 1 and record.ended is None:
            raise OSError(errno.ENOSPC, "No space left on device")
        write(record, folder)

    monkeypatch.setattr(ProcessRecord, "write", write_first_and_last)
    monkeypatch.setattr(attempt_log, "HEARTBEAT_INTERVAL_S", 0.0)
    words = _python("import time; time.sleep(1); raise SystemExit(3)")
    assert run_attempt.run(words, folder, NO_RETRY) == 3
    (process,) = attempt_log.read_attempts(folder)[0].processes
    assert process == tried[-1] and process.exit_code == 3
    assert len(tried) > 3  # each heartbeat is tried, also after one that failed


def test_a_job_with_a_result_is_not_run(folder):
    folder.mkdir()
    (folder / "result.json").write_text("{}")
    assert run_attempt.run(_python("raise SystemExit(1)"), folder, NO_RETRY) == 0
    assert attempt_log.read_attempts(folder) == []


def test_sigterm_is_passed_to_the_command_and_counts_as_a_preemption(folder):
    code = f"""
        import signal, sys, time
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
        open({str(folder / "ready")!r}, "w")
        time.sleep(60)
    """
    words = run_attempt.attempt_command(_python(code), folder, NO_RETRY)
    parent = subprocess.Popen([sys.executable, *words[1:]])
    wait_until((folder / "ready").exists)
    parent.terminate()
    assert parent.wait() == 1
    (process,) = attempt_log.read_attempts(folder)[0].processes
    assert process.stop_requested and process.failure == "preemption"


def test_a_command_dies_with_its_attempt_which_counts_as_preempted(folder):
    code = f"import time; open({str(folder / 'ready')!r}, 'w'); time.sleep(60)"
    words = run_attempt.attempt_command(_python(code), folder, NO_RETRY)
    parent = subprocess.Popen([sys.executable, *words[1:]])
    wait_until((folder / "ready").exists)
    assert run_attempt.is_running(folder)
    assert attempt_log.read_attempts(folder)[0].alive
    parent.kill()
    parent.wait()
    wait_until(
        lambda: not run_attempt.is_running(folder)
    )  # the command inherits the lock
    assert run_attempt.run(_python("0"), folder, Budget(preemptions=1)) == 0
    assert (
        run_attempt.run(_python("0"), folder, Budget(preemptions=0))
        == run_attempt.BUDGET_EXHAUSTED
    )


def test_attempts_at_a_job_run_one_after_the_other(folder):
    marker = str(folder / "marker")
    code = f"""
        import os, time
        os.mkdir({marker!r})
        time.sleep(0.5)
        os.rmdir({marker!r})
        open({str(folder / "result.json")!r}, "w").write("{{}}")
    """
    codes = []
    threads = [
        threading.Thread(
            target=lambda: codes.append(
                run_attempt.run(_python(code), folder, NO_RETRY)
            )
        )
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert codes == [0, 0, 0]
    assert len(attempt_log.read_attempts(folder)) == 1


@pytest.mark.parametrize(
    "codes, reason",
    [
        ((), None),
        ((0,), None),
        ((1, 137, 1), None),
        ((1, 75, 137, None, 1, 130, 1), "exit code 1"),
        ((75, None, 130, 75), None),
        ((75, None, 130, 75, 75), "4 times"),
        ((75, 2), "exit code 2"),
        ((3,), "exit code 3"),
    ],
)
def test_preemptions_and_failures_have_separate_budgets_and_mistakes_none(
    codes, reason
):
    attempts = _attempts(*codes)
    found = attempt_log.no_retry_reason(attempts, Budget(preemptions=4, retries=3))
    assert reason in found if reason else found is None
    assert attempt_log.no_retry_reason(attempts, Budget(0, 0, round=2)) is None


@pytest.mark.parametrize(
    "codes, cause",
    [
        ((75, 1), 1),
        ((75, None), 75),
        ((1, 2), 2),
        ((0, 137), 137),
        ((None, None), None),
    ],
)
def test_a_process_that_lost_another_is_not_the_root_cause(codes, cause):
    records = [_record(code, rank=rank) for rank, code in enumerate(codes)]
    assert Attempt(tuple(records)).root_cause.exit_code == cause
    assert Attempt(tuple(reversed(records))).root_cause.exit_code == cause


def test_attempts_are_read_complete_and_in_order(folder):
    for number in (2, 0, 1):
        for rank in (1, 0):
            _record(number, number=number, rank=rank).write(folder)
    attempts = attempt_log.read_attempts(folder)
    assert [a.root_cause.exit_code for a in attempts] == [0, 1, 2]
    assert all([p.rank for p in a.processes] == [0, 1] for a in attempts)


@pytest.mark.parametrize(
    "name, hosts, chips",
    [
        ("v4:2x2x1", 1, 4),
        ("v5e:1x1", 1, 1),
        ("v5e:2x4", 1, 8),
        ("v5e:4x4", 4, 4),
        ("v5e:16x16", 64, 4),
        ("v5p:4x4x8", 32, 4),
        ("v6e:16x16", 64, 4),
        ("tpu7x:2x2x2", 2, 4),
    ],
)
def test_a_slice_determines_hosts_and_chips(name, hosts, chips):
    resources = Resources(slice=name)
    assert (resources.hosts, resources.chips) == (hosts, chips)


@pytest.mark.parametrize(
    "fields, message",
    [
        ({"slice": "v5e"}, "v5e:16x16"),
        ({"slice": "v9:4x4"}, "v5e:16x16"),
        ({"slice": "v5e:4x4", "gpus": 1}, "--gpus"),
        ({"hosts": 0}, "--hosts=0"),
    ],
)
def test_wrong_resources_are_an_error(fields, message):
    with pytest.raises(UserError, match=message):
        Resources(**fields)


@pytest.mark.parametrize(
    "on, resources, flags",
    [
        ("local:here", Resources(), {}),
        ("local", Resources(gpus=1), {}),
        ("locl", Resources(), {}),
        ("local", Resources(), {"elsewhere.account": "x"}),
    ],
)
def test_a_backend_refuses_what_it_cannot_provide(on, resources, flags):
    with pytest.raises(UserError):
        load_backend(on, resources, flags)


def test_exit_codes_are_distinct():
    codes = {cli.DONE, cli.FAILED, cli.MISTAKE, cli.NON_FINITE}
    codes |= {cli.PREEMPTED, cli.INTERRUPTED, run_attempt.BUDGET_EXHAUSTED}
    assert len(codes) == 7
