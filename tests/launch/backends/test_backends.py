"""Attempts: what is left of them, what they may cost, and what a task needs."""

import subprocess
import sys
import textwrap
import threading
import time

import pytest
from etils import epath

from launch import backends, cli
from launch.backends import attempt_log, run_attempt
from launch.backends.attempt_log import Attempt, Budget, Process
from launch.backends.resources import Need
from research.errors import UserError

ONCE = Budget(preemptions=0, retries=0)


@pytest.fixture
def folder(tmp_path):
    return epath.Path(tmp_path / "task")


def _python(code: str) -> list[str]:
    return ["python", "-c", textwrap.dedent(code)]


def _until(condition, seconds=30.0):
    """Waits for a condition, which is to hold within so many seconds."""
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit, "it never came to hold"
        time.sleep(0.02)


def _process(code, *, number=0, rank=0, round=1, asked=False):
    return Process(
        f"{number:03d}", rank, round, "host", 1, number, number, code=code, asked=asked
    )


def _ended(*codes):
    return [Attempt((_process(code, number=n),)) for n, code in enumerate(codes)]


@pytest.mark.parametrize(
    "code, end",
    [("0", 0), ("3", 3), ("os.kill(os.getpid(), 9)", 137), ("undefined", 1)],
)
def test_an_attempt_leaves_a_log_and_a_record(folder, code, end):
    words = _python(f"import os, sys; print('hello', flush=True); sys.exit({code})")
    assert run_attempt.run(words, folder, ONCE) == end
    (done,) = attempt_log.read(folder)
    (process,) = done.processes
    assert process.code == end and process.ended >= process.began
    assert not done.lives and not run_attempt.held(folder)
    first, *rest = run_attempt.log(folder).read_text().splitlines()
    assert first.startswith("---") and rest[0] == "hello"


def test_a_budget_that_is_used_up_is_kept_to_by_the_attempt_itself(folder):
    words = _python(
        f"open({str(folder / 'ran')!r}, 'a').write('x'); raise SystemExit(1)"
    )
    budget = Budget(retries=2)
    codes = [run_attempt.run(words, folder, budget) for _ in range(5)]
    assert codes == [1, 1, 1, run_attempt.GIVEN_UP, run_attempt.GIVEN_UP]
    assert (folder / "ran").read_text() == "xxx"
    assert run_attempt.run(words, folder, Budget(retries=2, round=2)) == 1


def test_a_task_that_has_its_result_is_left_alone(folder):
    folder.mkdir()
    (folder / "result.json").write_text("{}")
    assert run_attempt.run(_python("raise SystemExit(1)"), folder, ONCE) == 0
    assert attempt_log.read(folder) == []


def test_sigterm_goes_on_to_the_command_and_counts_as_a_preemption(folder):
    code = f"""
        import signal, sys, time
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
        open({str(folder / "ready")!r}, "w")
        time.sleep(60)
    """
    words = run_attempt.command(_python(code), folder, ONCE)
    job = subprocess.Popen([sys.executable, *words[1:]])
    _until((folder / "ready").exists)
    job.terminate()
    assert job.wait() == 1
    (process,) = attempt_log.read(folder)[0].processes
    assert process.asked and process.fault == "preemption"


def test_a_command_dies_with_its_attempt_and_the_next_one_finds_it_lost(folder):
    code = f"import time; open({str(folder / 'ready')!r}, 'w'); time.sleep(60)"
    words = run_attempt.command(_python(code), folder, ONCE)
    job = subprocess.Popen([sys.executable, *words[1:]])
    _until((folder / "ready").exists)
    assert run_attempt.held(folder) and attempt_log.read(folder)[0].lives
    job.kill()
    job.wait()
    _until(lambda: not run_attempt.held(folder))  # the command inherits the lock
    assert run_attempt.run(_python("0"), folder, Budget(preemptions=1)) == 0
    assert (
        run_attempt.run(_python("0"), folder, Budget(preemptions=0))
        == run_attempt.GIVEN_UP
    )


def test_one_attempt_at_a_time(folder):
    mark = str(folder / "mark")
    code = f"""
        import os, time
        os.mkdir({mark!r})
        time.sleep(0.5)
        os.rmdir({mark!r})
        open({str(folder / "result.json")!r}, "w").write("{{}}")
    """
    codes = []
    threads = [
        threading.Thread(
            target=lambda: codes.append(run_attempt.run(_python(code), folder, ONCE))
        )
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert codes == [0, 0, 0]
    assert len(attempt_log.read(folder)) == 1


@pytest.mark.parametrize(
    "codes, why",
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
def test_preemptions_and_failures_are_counted_apart_and_mistakes_end_it(codes, why):
    said = attempt_log.refusal(_ended(*codes), Budget(preemptions=4, retries=3))
    assert why in said if why else said is None
    assert attempt_log.refusal(_ended(*codes), Budget(0, 0, round=2)) is None


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
def test_a_lost_peer_is_not_the_cause(codes, cause):
    ranks = [_process(code, rank=rank) for rank, code in enumerate(codes)]
    assert Attempt(tuple(ranks)).worst.code == cause
    assert Attempt(tuple(reversed(ranks))).worst.code == cause


def test_attempts_read_back_whole_and_in_order(folder):
    for number in (2, 0, 1):
        for rank in (1, 0):
            _process(number, number=number, rank=rank).write(folder)
    found = attempt_log.read(folder)
    assert [a.worst.code for a in found] == [0, 1, 2]
    assert all([p.rank for p in a.processes] == [0, 1] for a in found)


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
def test_a_slice_says_its_hosts(name, hosts, chips):
    need = Need(slice=name)
    assert (need.hosts, need.chips) == (hosts, chips)


@pytest.mark.parametrize(
    "asked, said",
    [
        ({"slice": "v5e"}, "v5e:16x16"),
        ({"slice": "v9:4x4"}, "v5e:16x16"),
        ({"slice": "v5e:4x4", "gpus": 1}, "--gpus"),
        ({"hosts": 0}, "--hosts=0"),
    ],
)
def test_a_wrong_need_is_told(asked, said):
    with pytest.raises(UserError, match=said):
        Need(**asked)


@pytest.mark.parametrize(
    "on, need, flags",
    [
        ("local:here", Need(), {}),
        ("local", Need(gpus=1), {}),
        ("locl", Need(), {}),
        ("local", Need(), {"elsewhere.account": "x"}),
    ],
)
def test_an_engine_says_what_it_cannot(on, need, flags):
    with pytest.raises(UserError):
        backends.load(on, need, flags)


def test_exit_codes_can_be_told_apart():
    codes = {cli.DONE, cli.FAILED, cli.MISTAKE, cli.NON_FINITE}
    codes |= {cli.PREEMPTED, cli.INTERRUPTED, run_attempt.GIVEN_UP}
    assert len(codes) == 7
