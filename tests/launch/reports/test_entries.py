"""Entries of a leaderboard have facts and scores; seeds of a config are a row."""

import json
from pathlib import Path

import pytest

from launch.commands import leaderboard
from launch.reports import entries
from research.contract.errors import UserError
from research.files.json_files import write_json
from research.record.workdir import write_result
from tests.testing.tiny_runs import save_untrained, tiny_config, write_corpus

RESULT = {
    "steps": 3,
    "best_step": 0,
    "metrics": {"train/loss": 2.0, "valid/loss": 1.0, "tokens_seen": 9},
    "margins": {"valid/loss": 0.25},
    "parameters": 1200,
    "tokens_seen": 900,
    "flops_to": [[3, 2e9]],
    "train_seconds": 60.0,
}


@pytest.fixture
def workdir(tmp_path):
    folder = write_corpus(tmp_path)
    save_untrained(folder / "run", tiny_config(folder, "mlm"))
    return folder / "run"


def test_an_entry_has_scores_with_their_intervals(workdir, tmp_path, capsys):
    write_result(workdir, dict(RESULT))
    cell = {"value": 0.5, "low": 0.4, "high": 0.6}
    for name, step in (("now", 3), ("earlier", 2)):
        table = {"step": step, "task": "blimp", "table": {"all": {"accuracy": cell}}}
        table["table"]["all"] |= {f"accuracy {name}": cell}
        write_json(workdir / "evaluations" / name / "table.json", table)
    results = {"rules": "babylm_2026", "backend": "mlm", "revisions": {}}
    results["revisions"]["main"] = {"reading": cell | {"count": 3}}
    write_json(tmp_path / "results" / "run" / "palimpsest_x.json", results)
    flags = f"--entries={tmp_path / 'board'}", f"--workdir={workdir}"
    more = f"--babylm={tmp_path / 'results'}", "--by=valid/loss"
    leaderboard.run(leaderboard.parser().parse_args([*flags, *more]))
    assert "| 1 | run | 1 [0.75, 1.25] | 1 | 1,200 | 900 |" in capsys.readouterr().out
    (path,) = (tmp_path / "board").glob("*.json")
    assert json.loads(path.read_text())["scores"] == {
        "valid/loss": {"value": 1.0, "low": 0.75, "high": 1.25},
        "blimp accuracy": cell,
        "blimp accuracy now": cell,
        "babylm_2026 mlm reading": cell,
    }


def entry(name, seed, **scores):
    cells = {key: {"value": v, "low": None, "high": None} for key, v in scores.items()}
    facts = dict.fromkeys(("parameters", "tokens", "flops", "seconds"), 1)
    facts |= {"devices": 1, "device": "cpu"}
    return facts | {"config": name, "name": name, "seed": seed, "scores": cells}


def test_seeds_are_one_row_and_the_best_mean_is_first():
    board = [
        entry("b", 0, blimp=0.5, loss=1.0),
        entry("a", 0, blimp=0.75, loss=2.0),
        entry("a", 1, blimp=0.25, loss=4.0),
        entry("c", 0, blimp=0.125),
        entry("d", 0),
    ]
    by, rows = entries.rank(board)
    assert by == "blimp" and [row.name for row in rows] == ["a", "b", "c", "d"]
    mean, low, high = rows[0].values["blimp"]
    assert mean == 0.5 and high - mean == pytest.approx(12.706 * 0.25, rel=1e-3)
    assert low == pytest.approx(2 * mean - high)
    _, rows = entries.rank(board, "loss")
    assert [row.name for row in rows] == ["b", "a", "c", "d"]


def test_each_backend_is_a_row_with_its_difference_from_a_baseline():
    """Gaps of 1, 2 and 3 points: t = 3.46 with 2 degrees of freedom."""
    board = [
        entry("lm", seed, **{"x causal blimp": 0.5 + seed / 10, "x causal aoa": 0.25})
        for seed in range(3)
    ]
    for seed in range(3):
        value = 0.51 + seed * 0.11
        board.append(entry("mix", seed, **{"x causal blimp": value, "x own aoa": 1.0}))
    board += [entry("mix", 3, **{"x mntp blimp": 0.9}), entry("none", 0, loss=1.0)]
    by = "x * blimp"
    _, rows = entries.rank([*entries.by_backend(board, [by, "x * aoa"])], by)
    names = ["mix (mntp)", "mix (causal)", "lm (causal)", "mix (own)", "none"]
    assert [row.name for row in rows] == names
    assert rows[3].values["x * aoa"][0] == 1.0 and len(rows[1].entries) == 3
    said = ["", "+0.02 ± 0.025, p 0.074", "", "", ""]
    assert entries.differences(by, rows, "lm (causal)") == said
    lines = entries.ranking_lines(by, rows, [], "lm (causal)")
    assert "| above lm (causal) |" in lines[0] and said[1] in lines[3]
    with pytest.raises(UserError, match=r"unknown row 'lm'; known: lm \(causal\), mix"):
        entries.differences(by, rows, "lm")
    with pytest.raises(UserError, match=r"2 rows are called lm \(causal\): rename"):
        entries.differences(by, [*rows, rows[2]], "lm (causal)")


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--workdir={run}"], r"is not a finished run: it has no result\.json"),
        ([], r"has no entries; palimpsest leaderboard --entries="),
        (["--babylm=x"], r"--babylm needs --workdir"),
    ],
)
def test_what_cannot_be_ranked_is_one_line(workdir, tmp_path, flags, said):
    flags = [flag.format(run=workdir) for flag in flags]
    args = leaderboard.parser().parse_args([f"--entries={tmp_path / 'none'}", *flags])
    with pytest.raises(UserError, match=said):
        leaderboard.run(args)
    with pytest.raises(UserError, match=r"unknown score 'x'"):
        entries.rank([entry("a", 0, y=1.0)], "x")


def test_the_figures_of_the_page_are_those_of_our_entries():
    """docs/howto/babylm.md has what experiments/leaderboard holds."""
    root = Path(__file__).parents[3]
    page = (root / "docs/howto/babylm.md").read_text("utf-8")
    ours = entries.read_entries(root / "experiments/leaderboard")
    assert {entry["name"] for entry in ours} == {"causal", "masked", "gptbert"}
    for entry in ours:
        for name, score in entry["scores"].items():
            if name.endswith((" blimp", " supplement", " mrpc")):
                ends = (f"{100 * score[end]:.1f}" for end in ("value", "low", "high"))
                assert "{} [{}, {}]".format(*ends) in page.replace("**", ""), name


def test_the_table_of_the_page_is_that_of_our_entries():
    """docs/howto/babylm.md: four objectives at equal tokens."""
    root = Path(__file__).parents[3]
    page = (root / "docs/howto/babylm.md").read_text("utf-8")
    ours = entries.read_entries(root / "experiments/leaderboard/equal_tokens")
    tasks = ("supplement", "entity_tracking", "reading")
    names, by = [f"babylm_2026 * {task}" for task in tasks], "babylm_2026 * blimp"
    names += ["babylm_2025 * wug_adj", "babylm_2025 * wug_past"]
    by, rows = entries.rank([*entries.by_backend(ours, [by, *names])], by)
    assert "\n".join(entries.ranking_lines(by, rows, names, "LM (causal)")) in page
