"""A log says how much is done and how much time is left."""

import pytest

from research.data import progress


def test_a_log_says_how_long_the_rest_takes(monkeypatch, capsys):
    """A run that goes on from step 50 of 200 and makes 10 steps in 20 seconds."""
    clock = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    with progress.progress("train", 200) as report:
        for done in (50, 60, 110):
            report(done, "loss 2.0")
            clock[0] += 20
            if done == 60:
                clock[0] += 80
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        "train: 30 %, loss 2.0, 5 min left",
        "train: 55 %, loss 2.0, 3 min left",
    ]
    with progress.progress("text") as report:
        for done in (1, 2):
            clock[0] += 20
            report(done, "1 M")
    assert capsys.readouterr().err.splitlines() == ["text: 1 M"] * 2


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.4, "0 s"),
        (29, "29 s"),
        (45, "1 min"),
        (3599, "1 h 00 min"),
        (11100, "3 h 05 min"),
    ],
)
def test_spans_of_time(seconds, text):
    assert progress.format_seconds(seconds) == text
