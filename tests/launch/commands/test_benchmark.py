"""The figures of `palimpsest benchmark` agree with each other."""

import json

import pytest

from launch.commands import benchmark
from launch.config import load_config
from research.contract.errors import UserError


@pytest.mark.long
def test_the_figures_agree(tmp_path, capsys):
    words = ("red", "cat", "sat", "mat", "old", "hat", "ran", "far", "sea", "sun")
    lines = [" ".join(words[i % n] for i in range(20)) for n in range(1, 11)]
    (tmp_path / "text.txt").write_text("\n".join(lines * 20))
    tiny = {
        "data.corpus": str(tmp_path / "text.txt"),
        "data.cache_dir": str(tmp_path / "cache"),
        "data.eval_split": "train",
        "data.held_out": 0.0,
        "data.vocabulary": "bytebpe",
        "data.vocabulary_size": 370,
        "data.length": 32,
        "model.layers": 1,
        "model.width": 32,
        "model.heads": 2,
        "model.feedforward": 64,
        "train.batch": 8,
        "train.steps": 200,
    }
    argv = [f"--config.{key}={value}" for key, value in tiny.items()]
    argv += ["--config=experiments/mlm.py", "--turns=2", "--steps=1"]
    parse = benchmark.parser().parse_args
    benchmark.run(parse([*argv, "--against=xla_cpu_enable_fast_math=true"]))
    assert json.loads(capsys.readouterr().out)["speedup_median"] > 0
    with pytest.raises(UserError, match="No such compile option: 'xla_nope'"):
        benchmark.run(parse([*argv, "--against=xla_nope=1"]))
    config = load_config("experiments/mlm.py", tiny)
    figures = benchmark.measure(config, str(tmp_path), turns=2, steps=2)
    assert {"mfu", "peak_bytes", "compile_seconds", "overhead"} <= figures.keys()
    assert figures["mfu"] is None and figures["peak_bytes"] > 0
    assert figures["tokens_per_second"] == pytest.approx(
        8 * 32 / figures["step_seconds"]
    )
    assert figures["flops_per_second"] * figures["step_seconds"] == pytest.approx(
        figures["flops_per_token"] * 8 * 32
    )
    assert figures["share_of_product"] * figures["product_flops_per_second"] == (
        pytest.approx(figures["flops_per_second"])
    )
    pairs = zip(figures["loop_seconds"], figures["bare_seconds"], strict=True)
    assert sum(a / b - 1 for a, b in pairs) / 2 == pytest.approx(
        figures["overhead_median"]
    )
    assert figures["overhead_interval"] is None  # of two turns
    assert min(figures["loop_seconds"]) == figures["step_seconds"]


def test_the_interval_of_a_median_follows_from_the_order():
    assert benchmark.median_interval(range(5)) is None
    assert benchmark.median_interval([5, 1, 3, 2, 4, 900]) == [1, 900]
    assert benchmark.median_interval(range(1, 11)) == [2, 9]  # 97.9 %
