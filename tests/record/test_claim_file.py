"""A claim on a bucket's folder: one holder, released by it or taken after its death."""

import json
import threading

import pytest
from etils import epath

from research.contract.errors import UserError
from research.record import claim_file


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.setattr(claim_file, "HEARTBEAT_INTERVAL_S", 0.05)
    monkeypatch.setattr(claim_file, "DEAD_S", 0.5)
    monkeypatch.setattr(claim_file, "SETTLE_S", 0.0)  # no renewal comes in between
    return epath.Path(tmp_path) / "run" / ".claim.json"


def test_a_second_run_is_refused_while_the_first_lives(path):
    with claim_file.hold_claim(path):
        found = json.loads(path.read_text())
        with (
            pytest.raises(
                UserError, match=rf"process {found['pid']} on {found['host']}"
            ),
            claim_file.hold_claim(path),
        ):
            pass
    assert not path.exists()
    with claim_file.hold_claim(path):
        pass


def test_the_claim_of_a_process_that_was_killed_is_taken_over(path):
    path.parent.mkdir()
    path.write_text(json.dumps({"host": "gone", "pid": 1, "time": 0.0}))
    with claim_file.hold_claim(path):
        assert json.loads(path.read_text())["host"] != "gone"


@pytest.mark.parametrize("has_ended", [False, True])
def test_a_holder_that_was_replaced_ends_its_process(path, monkeypatch, has_ended):
    other = json.dumps({"host": "other", "pid": 2, "time": 0.0, "id": "2"})
    ended, lines = threading.Event(), []

    def exit_with_error(code, line):
        lines.append((code, line))
        ended.set()

    with claim_file.hold_claim(path):
        monkeypatch.setattr(claim_file, "write_json", lambda *_: 1 / 0)  # the gap
        monkeypatch.setattr(claim_file, "exit_with_error", exit_with_error)
        path.unlink() if has_ended else path.write_text(other)
        assert ended.wait(10)
    code, line = lines[0]
    what = "gone" if has_ended else "of process 2 on other"
    assert code == 75 and f"(.claim.json is {what}); this one has ended" in line
    assert not path.exists() if has_ended else path.read_text() == other


def test_of_two_that_start_at_once_one_goes_on(path, monkeypatch):
    other = {"host": "other", "pid": 2, "time": 0.0}

    def overwritten(seconds):
        if path.exists():
            path.write_text(json.dumps(other))

    monkeypatch.setattr(claim_file.time, "sleep", overwritten)
    with (
        pytest.raises(UserError, match="process 2 on other"),
        claim_file.hold_claim(path),
    ):
        pass
    assert json.loads(path.read_text()) == other
