"""When one process of a run ends, the others exit and print the reason."""

import signal
import time

import pytest

from tests.testing.connected_processes import (
    LOST_EXIT_CODE,
    Processes,
    run_together,
)

WAIT = "time.sleep(60)"
LEAVES = "while another leaves"
STEPS = """
for done in range(10**6):
    if peers.should_stop():
        say(done)
        peers.leave()
        os._exit(75)
    time.sleep(0.001 * (1 + index))
"""

MEETS_SLOWLY = """
meet_last = peers._meet_last
peers._meet_last = lambda name: (meet_last(name), time.sleep(3))
"""

HEARS_LATE = """
from research.distributed.failure_detector import ConnectedPeers
if index == 1:
    hear = ConnectedPeers._await
    ConnectedPeers._await = lambda *name: time.sleep(1) or hear(*name)
"""


def kill(folder, victim, *codes):
    """The processes of these codes, of which one is killed, and their exit codes."""
    processes = Processes(folder, *codes).wait_until_connected()
    time.sleep(0.2)
    processes.signal(victim)
    return processes, processes.end()


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """killed(victim) -> what `kill` gives of three processes that wait; killed(LEAVES):
    of two, of which the other one waits for the victim to leave, too."""
    three = lambda victim: lambda folder: kill(folder, victim, WAIT, WAIT, WAIT)  # noqa: E731
    calls = {victim: three(victim) for victim in (0, 1)}
    calls[LEAVES] = lambda folder: kill(folder, 1, "peers.leave()", WAIT)
    return run_together(calls, tmp_path_factory.mktemp("killed"))


@pytest.mark.parametrize("victim", [0, 1])
def test_when_one_process_is_killed_the_others_exit(killed, victim):
    processes, codes = killed(victim)
    expected = [LOST_EXIT_CODE] * 3
    expected[victim] = -signal.SIGKILL
    assert codes == expected
    for index in {0, 1, 2} - {victim}:
        [line] = processes.errors(index)
        assert line.startswith(f"error: process {victim} on ")
        assert line.endswith("was killed, or its machine is gone")


@pytest.mark.parametrize("first", [0, 2])
def test_an_error_ends_all_processes_with_its_code(tmp_path, first):
    codes = [WAIT] * 3
    codes[first] = "time.sleep(0.3); raise ValueError('data.corpus: no such folder')"
    processes = Processes(tmp_path, *codes, before=HEARS_LATE).wait_until_connected()
    assert processes.end() == [2, 2, 2]
    for index in {0, 1, 2} - {first}:
        [line] = processes.errors(index)
        assert line.startswith(f"error: process {first} on ")
        assert line.endswith("ended: data.corpus: no such folder")


def test_an_error_is_the_reason_also_of_what_is_lost_after_it(tmp_path):
    """Process 1 loses one when it has heard the error, before it has told so."""
    fails = "peers._meet_last = lambda name: time.sleep(1)\n"
    fails += "time.sleep(0.5); raise ValueError('wrong')"
    loses = "peers._meet_last = lambda name: peers._exit(1, 'lost')\n"
    processes = Processes(tmp_path, fails, loses + WAIT).wait_until_connected()
    assert processes.end() == [2, 2]
    [line] = processes.errors(1)
    assert line.endswith("ended: wrong")


def test_on_sigterm_all_stop_after_the_same_step(tmp_path):
    processes = Processes(tmp_path, STEPS, STEPS, STEPS).wait_until_connected()
    time.sleep(0.3)
    processes.signal(1, signal.SIGTERM)
    assert processes.end() == [LOST_EXIT_CODE] * 3
    steps = {processes.output(index).split()[-1] for index in processes.indices}
    assert len(steps) == 1 and int(steps.pop()) > 0


def test_on_sigterm_before_the_first_step_all_exit_at_once(tmp_path):
    """Process 1 exits later than process 0, with which the store ends."""
    processes = Processes(tmp_path, STEPS, MEETS_SLOWLY + WAIT).wait_until_connected()
    processes.signal(0, signal.SIGTERM)
    assert processes.end() == [LOST_EXIT_CODE] * 2
    for index in (0, 1):
        [line] = processes.errors(index)
        assert "SIGTERM before the first step" in line


@pytest.mark.parametrize("code", [STEPS, WAIT])
def test_a_single_process_stops_on_sigterm_too(tmp_path, code):
    processes = Processes(tmp_path, code).wait_until_connected()
    time.sleep(0.2)
    processes.signal(0, signal.SIGTERM)
    assert processes.end() == [LOST_EXIT_CODE]
    assert (code == WAIT) == bool(processes.errors(0))


def test_a_process_that_has_left_may_exit(tmp_path):
    """Process 0 leaves first; with it the store ends."""
    leave = "time.sleep(index / 4); peers.leave(); say('left')"
    processes = Processes(tmp_path, leave, leave, leave).wait_until_connected()
    assert processes.end() == [0, 0, 0]
    assert [processes.output(i).split()[-1] for i in (0, 1, 2)] == ["left"] * 3
    assert not any(processes.errors(index) for index in (0, 1, 2))


def test_a_process_that_waits_for_others_to_leave_exits_when_one_is_killed(killed):
    _, codes = killed(LEAVES)
    assert codes == [LOST_EXIT_CODE, -signal.SIGKILL]
