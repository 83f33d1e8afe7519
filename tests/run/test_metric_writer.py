"""What is written down: one mean over all, and the same file after a restart."""

import json

import pytest

from research.run.metric_writer import Writer, means, scored, write_json


def test_the_loss_is_the_weighted_sum_of_the_means():
    sums = {"mlm": (6.0, 2.0, 2.0), "disc": (1.0, 4.0, 200.0), "acc": (1.0, 2.0, 0.0)}
    assert means(sums) == pytest.approx(
        {"loss": 3.0 + 50 * 0.25, "mlm": 3.0, "disc": 0.25, "acc": 0.5}
    )


def test_a_term_without_weight_counts_nothing():
    assert means({"lm": (0.0, 0.0, 0.0)}) == {"loss": 0.0, "lm": 0.0}


def test_scored_counts_trained_terms_only():
    assert scored({"mlm": (1.0, 5.0, 5.0), "accuracy": (1.0, 9.0, 0.0)}) == 5.0


def test_a_restart_drops_what_came_after_its_checkpoint(tmp_path):
    writer = Writer(tmp_path, step=0)
    for step in (10, 20, 30):
        writer.write(step, {"train/loss": 1.0 / step})
    writer.close()
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 40, "train/lo')  # killed while writing
    again = Writer(tmp_path, step=20)
    again.write(30, {"train/loss": 0.5})
    again.close()
    lines = [json.loads(x) for x in (tmp_path / "metrics.jsonl").open()]
    assert [line["step"] for line in lines] == [10, 20, 30]
    assert again.latest() == {"train/loss": 0.5}


def test_a_result_is_whole_or_absent(tmp_path):
    with pytest.raises(TypeError):
        write_json(tmp_path / "result.json", {"x": object()})
    assert not (tmp_path / "result.json").exists()
