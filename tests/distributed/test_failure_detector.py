"""Processes that watch each other: whoever ends takes the others along and says why."""

import json
import signal
import subprocess
import sys
import time

import pytest

LOST, SOON = 75, 10.0

PROCESS = """
import json, sys, time
from research.distributed.failure_detector import Address, Hub, Peers
index, count, address = int(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3])
if index == 0:
    address = Hub(count, "localhost", lost=75).address
    print(json.dumps(address), flush=True)
peers = Peers(index, count, Address(*address), lost=75)
def say(word): print(word, flush=True)
with peers.heeding():
    say("here")
    try:
        exec(sys.argv[4])
    except Exception as error:
        peers.fail(2, str(error), outside=False)
        sys.exit(2)
"""
WAIT = "time.sleep(60)"
STEPS = """
for done in range(10**6):
    if peers.stops():
        say(done)
        peers.leave()
        sys.exit(75)
    time.sleep(0.001 * (1 + index))
"""


class Party:
    """Some processes that know of each other, and run some code."""

    def __init__(self, *codes):
        self.processes, address = [], "null"
        for index, code in enumerate(codes):
            words = [str(index), str(len(codes)), address, code]
            process = subprocess.Popen(
                [sys.executable, "-c", PROCESS, *words],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            if index == 0:
                address = process.stdout.readline()
            self.processes.append(process)
        for process in self.processes:
            assert process.stdout.readline() == "here\n"

    def end(self):
        """Exit codes, what was said, and on standard error; all within `SOON`."""
        began = time.monotonic()
        told = [process.communicate(timeout=SOON) for process in self.processes]
        assert time.monotonic() - began < SOON
        codes = [process.returncode for process in self.processes]
        return codes, [out for out, _ in told], [err for _, err in told]


@pytest.mark.parametrize("victim", [0, 1, 2])
def test_a_killed_process_takes_the_others_along(victim):
    party = Party(WAIT, WAIT, WAIT)
    party.processes[victim].kill()
    codes, _, errors = party.end()
    expected = [LOST] * 3
    expected[victim] = -signal.SIGKILL
    assert codes == expected
    for index, line in enumerate(errors):
        if index != victim:
            assert line.startswith(f"error: process {victim} on ")
            assert line.endswith("was killed, or its machine is gone\n")


@pytest.mark.parametrize("first", [0, 2])
def test_an_error_is_told_to_all_with_its_code(first):
    codes = [WAIT] * 3
    codes[first] = "time.sleep(1); raise ValueError('data.corpus: no such folder')"
    codes, _, errors = Party(*codes).end()
    assert codes == [2, 2, 2]
    errors.pop(first)
    for line in errors:
        assert line.startswith(f"error: process {first} on ")
        assert line.endswith("ended: data.corpus: no such folder\n")


def test_a_hub_that_is_gone_before_it_is_reached_was_lost():
    address = json.dumps(["127.0.0.1", 1, "token", "there"])
    words = [sys.executable, "-c", PROCESS, "1", "2", address, WAIT]
    done = subprocess.run(words, capture_output=True, text=True, timeout=SOON)
    assert done.returncode == LOST
    assert done.stderr.startswith("error: process 0 on there was killed")


SLOW_HUB = """
import time
from research.distributed.failure_detector import Hub, Peers
serve = Hub._serve
Hub._serve = lambda *words: (time.sleep(0.5), serve(*words))
hub = Hub(2, "localhost", lost=75)
Peers(1, 2, hub.address, lost=75)
print(*hub.wires, flush=True)
"""


def test_a_process_goes_on_when_the_hub_knows_it():
    """Else news told to all that are known would miss it."""
    words = [sys.executable, "-c", SLOW_HUB]
    done = subprocess.run(words, capture_output=True, text=True, timeout=SOON)
    assert done.stdout == "1\n", done.stderr


def test_asked_to_stop_all_do_after_the_same_step():
    party = Party(STEPS, STEPS, STEPS)
    time.sleep(0.3)
    party.processes[1].terminate()
    codes, steps, _ = party.end()
    assert codes == [LOST] * 3
    assert len(set(steps)) == 1 and int(steps[0]) > 0


def test_before_the_first_step_there_is_nothing_to_wait_for():
    party = Party(STEPS, WAIT)
    party.processes[0].terminate()
    codes, _, errors = party.end()
    assert codes == [LOST] * 2
    assert all("SIGTERM before the first step" in line for line in errors)


def test_alone_too_a_signal_ends_the_run():
    party = Party(STEPS)
    time.sleep(0.1)
    party.processes[0].terminate()
    codes, steps, _ = party.end()
    assert codes == [LOST] and int(steps[0]) > 0
    party = Party(WAIT)
    party.processes[0].terminate()
    assert party.end()[0] == [LOST]


def test_the_end_of_one_that_has_left_is_no_news():
    leave = "time.sleep(index / 4); peers.leave(); say('left')"
    codes, words, errors = Party(leave, leave, leave).end()
    assert codes == [0, 0, 0] and words == ["left\n"] * 3 and errors == [""] * 3
