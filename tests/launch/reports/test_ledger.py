"""The ledger: a verdict needs a committed result whose plan was stated before."""

import json
import re
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest

from launch.cli import main
from launch.commands import claims as command
from launch.config import load_config
from launch.reports import ledger
from launch.reports.ledger import Result
from launch.sweeps import published, sweep_plan
from launch.sweeps.scales import SCALES
from research.contract.errors import UserError
from research.record.workdir import write_result
from tests.testing import fake_sweep

CLAIMS = """
source = "Someone (2019), table 1"
mark = "V1"
[metrics]
"score" = "higher"
"ppl" = "lower"
[rows]
"MLM" = [84.0, 5.0]
"LM" = [80.0, 4.0]
[arms]
"MLM" = ["experiments/mlm.py", {}]
[claims.mlm-over-lm]
better = "MLM"
worse = "LM"
metric = "score"
plan.smoke = { metric = "score", seeds = 3, items = 1, seed_sd = 1.0 }
[claims.lm-over-mlm]
better = "LM"
worse = "MLM"
metric = "ppl"
"""
compare_results = ledger.compare_results
ORIGIN = {"commit": ["abc"], "data": ["d"], "trials": [["1"], ["2"]]}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "x.toml").write_text(CLAIMS)
    return tmp_path


def _claim(folder):
    return ledger.load_claims(folder)["x.mlm-over-lm"]


def _result(better, worse, higher_is_better=True):
    scores = np.array(better), np.array(worse)
    return Result(tuple(range(len(better))), *scores, higher_is_better, ORIGIN)


def _page(folder):
    return "\n".join(command.page(ledger.load_claims(folder), folder))


def test_claims_follow_from_the_table(folder):
    first, second = ledger.load_claims(folder).values()
    assert (first.difference, second.difference) == (4.0, -1.0)
    assert first.arms == (("experiments/mlm.py", {}), None)
    assert first.plans["smoke"].detectable() == pytest.approx(3.3, abs=0.1)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('mark = "V1"', 'mark = "V9"', "mark"),
        ('better = "MLM"', 'better = "BERT"', "row of x.mlm-over-lm"),
        ('metric = "score"\nplan', 'metric = "f1"\nplan', "metric of x.mlm-over-lm"),
        ("[84.0, 5.0]", "[79.0, 5.0]", "MLM is not better in the table"),
        ("[84.0, 5.0]", "[84.0]", "row MLM has 1 of 2 numbers"),
        ('"lower"', '"less"', "direction"),
        ("[rows]", "[row]", "lacks 'rows'"),
        ("seed_sd = 1.0", "sd = 1.0", "is not a table of claims: seed_sd is missing"),
        ("seeds = 3, ", "", "is not a table of claims: seeds is missing"),
        (
            "seeds = 3",
            "seeds = 0",
            "at least 2 seeds, to know their spread, and 1 item",
        ),
        ("seeds = 3", "seeds = 1.5", "is not a table of claims: 'seeds'"),
        ("seeds = 3", "seed = 3, seeds = 3", "'seed' is not a field of a plan"),
        ("items = 1", "items = 0", "and 1 item; got 3 and 0"),
        ("seed_sd = 1.0", "seed_sd = 0", "seed_sd of a plan must be above 0"),
        (
            "seed_sd = 1.0",
            "seed_sd = nan",
            "not a table of claims: 'seed_sd' is not below",
        ),
        ("[rows]", "[rows", "is not a table of claims"),
    ],
)
def test_a_wrong_file_is_one_line(folder, old, new, words):
    assert CLAIMS.count(old) >= 1
    (folder / "x.toml").write_text(CLAIMS.replace(old, new, 1))
    with pytest.raises(UserError) as caught:
        ledger.load_claims(folder)
    assert words in str(caught.value) and "x.toml" in str(caught.value)


@pytest.mark.parametrize(
    "scores",
    [
        np.random.default_rng(0).integers(0, 2, (3, 50)).astype(float),
        np.random.default_rng(0).normal(size=3).astype(np.float32).astype(float),
        np.random.default_rng(0).normal(size=(2, 7)),
    ],
)
def test_a_result_is_read_as_it_was_written(folder, scores):
    claim, result = _claim(folder), _result(scores, 1 - scores)
    path = ledger.write_result(claim, "smoke", result, folder)
    found = ledger.read_result(claim, "smoke", folder)
    assert np.array_equal(found.better, scores)
    assert np.array_equal(found.worse, 1 - scores)
    assert (found.seeds, found.provenance) == (result.seeds, ORIGIN)
    written = path.read_bytes()
    ledger.write_result(claim, "smoke", result, folder)
    assert path.read_bytes() == written
    assert scores.dtype == float and (scores.size < 100 or len(written) < 1000)


def test_a_verdict_needs_an_untouched_result_and_its_plan(folder):
    claim = _claim(folder)
    assert ledger.read_result(claim, "smoke", folder) is None
    assert "2 not run" in _page(folder) and "**" not in _page(folder)
    result = _result((70.0, 71.0, 72.0), (60.0, 61.2, 62.0))
    with pytest.raises(UserError, match="unknown plan"):
        ledger.write_result(claim, "small", result, folder)
    path = ledger.write_result(claim, "smoke", result, folder)
    text = path.read_text()
    path.write_text(text.replace('"abc"', '"abd"'))
    with pytest.raises(UserError, match="was changed after it was recorded"):
        _page(folder)
    path.write_text(text)
    (folder / "x.toml").write_text(CLAIMS.replace("seeds = 3", "seeds = 4"))
    with pytest.raises(UserError, match="was changed after the runs"):
        _page(folder)
    (folder / "x.toml").write_text(CLAIMS)
    other = ledger.result_path(claim._replace(id="x.lm-over-mlm"), "smoke", folder)
    path.rename(other)
    with pytest.raises(UserError, match=r"is the result of x.mlm-over-lm"):
        _page(folder)


@pytest.mark.parametrize(
    ("better", "worse", "higher", "words"),
    [
        ((70.0, 71.0, 72.0), (60.0, 61.2, 62.0), True, "**holds**, +9.93 ± 0.29"),
        ((70.0, 71.0, 72.0), (60.0, 61.2, 62.0), False, "**reversed**, +9.93 ± 0.29"),
        ((61.0, 61.0, 63.0), (60.0, 61.2, 62.0), True, "**not decided**"),
        ((70.0,), (60.0,), True, "**too few seeds**, +10 (score, 1 seeds, "),
        ((70.0, 72.0), (60.0, 61.0), True, "**too few seeds**, +10.5 (score, 2 "),
    ],
)
def test_the_ledger_says_what_a_result_decides(folder, better, worse, higher, words):
    result = _result(better, worse, higher)
    ledger.write_result(_claim(folder), "smoke", result, folder)
    page = _page(folder)
    assert words in page and "2 claims. smoke: 1 " in page
    assert ("needs" in page) == ("not decided" in words)


def test_a_repeat_has_other_seeds_and_its_own_verdict(folder):
    claim = _claim(folder)
    first = _result((70.0, 71.0, 72.0), (60.0, 61.2, 62.0))
    later = _result((61.0, 61.0, 63.0), (60.0, 61.2, 62.0))._replace(seeds=(3, 4, 5))
    with pytest.raises(UserError, match="no result at smoke to repeat"):
        ledger.write_result(claim, "smoke", later, folder, repeat=True)
    ledger.write_result(claim, "smoke", first, folder)
    before = _page(folder)
    with pytest.raises(UserError, match=r"share seed 2; .*--first_seed=3"):
        shared = later._replace(seeds=(2, 3, 4))
        ledger.write_result(claim, "smoke", shared, folder, repeat=True)
    assert _page(folder) == before
    ledger.write_result(claim, "smoke", later, folder, repeat=True)
    page = _page(folder)
    assert "of 1 claims 0 have the same verdict again, 1 a difference of the" in page
    assert "**holds**, +9.93 ± 0.29" in page
    assert "; again, with other seeds: not decided, +0.6 ± " in page
    assert "smoke: 1 holds" in page  # the first result counts


def test_a_result_that_is_recorded_again_has_no_seeds_of_its_repeat(folder):
    claim = _claim(folder)
    first = _result((70.0, 71.0, 72.0), (60.0, 61.2, 62.0))
    ledger.write_result(claim, "smoke", first, folder)
    later = first._replace(seeds=(3, 4, 5))
    repeat = ledger.write_result(claim, "smoke", later, folder, repeat=True)
    before = _page(folder)
    more = _result((70.0, 71.0, 72.0, 73.0), (60.0, 61.2, 62.0, 63.0))
    shared = rf"share seed 3; delete \S*{repeat.name}\S* .*--first_seed=4"
    with pytest.raises(UserError, match=shared):
        ledger.write_result(claim, "smoke", more, folder)
    assert _page(folder) == before
    ledger.write_result(claim, "smoke", first, folder)
    (folder / "x.toml").write_text(CLAIMS.replace("seeds = 3", "seeds = 4"))
    ledger.write_result(_claim(folder), "smoke", first, folder)  # of the new plan
    ledger.write_result(_claim(folder), "smoke", later, folder, repeat=True)
    assert "again, with other seeds: holds" in _page(folder)
    repeat.unlink()
    ledger.write_result(_claim(folder), "smoke", more, folder)


def test_a_repeat_of_too_few_seeds_has_no_interval(folder):
    claim = _claim(folder)
    first = _result((70.0, 71.0, 72.0), (60.0, 61.2, 62.0))
    later = _result((71.0, 72.0), (60.0, 61.0))._replace(seeds=(3, 4))
    ledger.write_result(claim, "smoke", first, folder)
    ledger.write_result(claim, "smoke", later, folder, repeat=True)
    page = _page(folder)
    assert (
        "; again, with other seeds: too few seeds, +11 |" in page and "nan" not in page
    )


def test_claims_of_a_table_are_one_family_and_count_once_for_the_same_scores(folder):
    claim = "[claims." + CLAIMS.split("[claims.")[1]
    other = claim.replace("mlm-over-lm", "other").replace(
        'metric = "score", seeds', 'metric = "ppl", seeds'
    )
    same = claim.replace("mlm-over-lm", "same")
    (folder / "x.toml").write_text(CLAIMS + other)
    (folder / "y.toml").write_text(CLAIMS + same)
    claims = ledger.load_claims(folder).values()
    result = _result((70.0, 71.0, 72.0), (60.0, 61.2, 62.0))
    others = _result((70.0, 71.0, 72.0), (60.0, 61.4, 62.0))
    for claim in claims:
        if "smoke" in claim.plans:
            scores = others if claim.id == "x.other" else result
            ledger.write_result(claim, "smoke", scores, folder)
    found = ledger.compare_results(claims, "smoke", folder)
    smallest = min(found["x.other"][0].p, found["x.mlm-over-lm"][0].p)
    assert found["x.other"][0].adjusted_p >= 2 * smallest
    for name in ("y.mlm-over-lm", "y.same"):
        assert found[name][0].adjusted_p == found[name][0].p
    shown = ledger.planned_differences(claims, "smoke")
    assert shown["x.other"] == shown["x.mlm-over-lm"] > 1.3 * shown["y.same"]


def _record_flags(folder, claim):
    """Flags that record the claim from the runs of a finished sweep."""
    workdir = folder / "runs"
    workdir.mkdir()
    header = {"sweep": "sweep.py", "scale": "smoke", "on": "local", "round": 1}
    header |= {"retries": 0, "preemptions": 0, "resources": {}, "flags": {}}
    sweep_plan.write_plan(fake_sweep.finished(workdir), workdir, **header)
    flags = [f"--folder={folder}", f"--claim={claim}", f"--workdir={workdir}"]
    return [*flags, f"--table={fake_sweep.__file__}", "--better=mlm", "--worse=lm"]


STAND_IN = """
[claims.by-ppl]
better = "MLM"
worse = "LM"
metric = "ppl"
plan.smoke = { metric = "score", seeds = 3, items = 1, seed_sd = 1.0 }
"""


@pytest.mark.parametrize("better", ["higher", "lower"])
def test_what_is_better_in_a_metric_that_stands_in_is_read_of_the_column(
    folder, better
):
    """Of the column that the plan names, not of the claim's metric."""
    content = CLAIMS.replace('"lower"', '"higher"').partition("[claims.")[0] + STAND_IN
    (folder / "x.toml").write_text(content)
    table = Path(fake_sweep.__file__).read_text()
    assert "tested=True)" in table
    shown = table.replace("tested=True)", f"tested=True, better={better!r})")
    (folder / "table.py").write_text(shown)
    flags = [*_record_flags(folder, "x.by-ppl"), f"--table={folder}/table.py"]
    with pytest.raises(SystemExit) as caught:
        main(command.run, command.parser(), flags)
    assert caught.value.code == 0
    found = ledger.read_result(ledger.load_claims(folder)["x.by-ppl"], "smoke", folder)
    assert found.higher_is_better == (better == "higher")


def test_a_result_is_recorded_from_the_runs_of_a_table(folder, capsys):
    flags = _record_flags(folder, "x.mlm-over-lm")
    with pytest.raises(SystemExit) as caught:
        main(command.run, command.parser(), flags)
    assert caught.value.code == 0, capsys.readouterr().err
    found = ledger.read_result(_claim(folder), "smoke", folder)
    assert list(found.better) == list(fake_sweep.SCORES["mlm"])
    assert list(found.worse) == list(fake_sweep.SCORES["lm"])
    assert found.seeds == (0, 1, 2) and found.provenance["commit"] == ["abc"]
    assert found.provenance["device"] == ["Zen 5"]
    assert "# on Zen 5" in command._origin_lines(found)
    assert "**holds**" in _page(folder)
    with pytest.raises(SystemExit) as caught:
        main(command.run, command.parser(), [*flags, "--worse=none at all"])
    assert caught.value.code == 2 and "row of" in capsys.readouterr().err
    with pytest.raises(SystemExit) as caught:
        main(command.run, command.parser(), [*flags, "--worse=mlm"])
    assert caught.value.code == 2 and "same score in all" in capsys.readouterr().err


def test_a_folder_without_claims_is_refused(tmp_path, capsys):
    with pytest.raises(SystemExit) as caught:
        main(command.run, command.parser(), [f"--folder={tmp_path}"])
    assert caught.value.code == 2 and "has no claims" in capsys.readouterr().err


def test_a_claim_with_two_populations_is_recorded_and_not_decided(folder, capsys):
    flags = _record_flags(folder, "x.mlm-over-lm")
    trials = sweep_plan.read_plan(folder / "runs")
    for trial, loss in zip(
        fake_sweep.rows(trials)["mlm"]["first"], (5.9, 4.0, 5.9), strict=True
    ):
        metrics = {"valid/loss": loss, "valid/mlm": loss}
        fake_sweep.write_run(trial, metrics, token_entropy=6.0)
    with pytest.raises(SystemExit) as caught:
        main(command.run, command.parser(), flags)
    assert caught.value.code == 0, capsys.readouterr().err
    claims, claim = ledger.load_claims(folder), _claim(folder)
    found = ledger.read_result(claim, "smoke", folder)
    assert list(found.better) == list(fake_sweep.SCORES["mlm"])
    assert found.two_populations == "2 seeds of mlm"
    assert not ledger.compare_results(claims.values(), "smoke", folder)
    page = _page(folder)
    assert "**two populations** (score; 2 seeds of mlm)" in page
    assert "smoke: 1 with two populations, 1 not run" in page and "holds" not in page
    again = found._replace(seeds=(3, 4, 5))
    ledger.write_result(claim, "smoke", again, folder, repeat=True)
    assert "again, with other seeds: two populations (2 seeds of mlm)" in _page(folder)
    again = _result((70.0, 71.0, 72.0), (60.0, 61.2, 62.0))._replace(seeds=(3, 4, 5))
    ledger.write_result(claim, "smoke", again, folder, repeat=True)
    page = _page(folder)
    assert "again, with other seeds: holds" in page
    assert "Repeated with other seeds" not in page


def test_of_mixed_data_and_of_missing_pretrainings_nothing_is_recorded(folder, capsys):
    flags = _record_flags(folder, "x.mlm-over-lm")
    trials = sweep_plan.read_plan(folder / "runs")
    tuned = next(trial for trial in trials if trial.parents)
    origin = tuned.result["provenance"]
    for data, words in (("other", "different data"), (None, "no result")):
        changed = tuned.result | {"provenance": origin | {"data": data}}
        write_result(tuned.folder, changed)
        with pytest.raises(SystemExit) as caught:
            main(command.run, command.parser(), flags)
        assert caught.value.code == 2 and words in capsys.readouterr().err
        (tuned.parents["train.init_from"].folder / "result.json").unlink(
            missing_ok=True
        )


def test_a_result_says_on_which_data_its_runs_were_tested(folder):
    flags = _record_flags(folder, "x.mlm-over-lm")
    for trial in sweep_plan.read_plan(folder / "runs"):
        origin = trial.result["provenance"] | {"test_data": "file A"}
        write_result(trial.folder, trial.result | {"provenance": origin})
    with pytest.raises(SystemExit) as caught:
        main(command.run, command.parser(), flags)
    assert caught.value.code == 0
    found = ledger.read_result(_claim(folder), "smoke", folder)
    assert found.provenance["test_data"] == ["file A"]


def test_of_a_table_what_can_be_is_recorded(folder, capsys):
    absent = STAND_IN.replace('metric = "score"', 'metric = "absent"')
    absent = absent.replace('"MLM"', '"LM"', 1).replace('worse = "LM"', 'worse = "MLM"')
    (folder / "x.toml").write_text(CLAIMS + absent)
    flags = _record_flags(folder, "x")
    with pytest.raises(SystemExit) as caught:
        main(command.run, command.parser(), flags)
    printed = capsys.readouterr()
    assert caught.value.code == 0 and "mlm-over-lm.smoke.json" in printed.out
    assert "x.by-ppl is not recorded: unknown column" in printed.err
    more = (folder / "x.toml").read_text()
    (folder / "x-1.toml").write_text(f'table = "other-2"\n{more}')
    for name, code in (("x-1", 0), ("other_2", 0), ("x_1", 2)):
        with pytest.raises(SystemExit) as caught:
            main(command.run, command.parser(), [*flags, f"--claim={name}"])
        assert caught.value.code == code
    with pytest.raises(SystemExit) as caught:
        main(command.run, command.parser(), [*flags, "--scale=small"])
    assert caught.value.code == 2
    assert "no claim of x has a plan for scale small" in capsys.readouterr().err


@cache
def published_claims():
    return ledger.load_claims(published.FOLDER)


@cache
def compared(scale, repeat):
    """The comparisons of all published claims at a scale."""
    claims = published_claims().values()
    return compare_results(claims, scale, published.FOLDER, repeat=repeat)


def test_the_published_claims_load_and_their_configs_exist(monkeypatch):
    claims = published_claims()
    monkeypatch.setattr(  # compared once, for all tests
        ledger,
        "compare_results",
        lambda _, scale, __, *, repeat=False: compared(scale, repeat),
    )
    assert len(claims) >= 60
    arms = {
        json.dumps(arm): arm for claim in claims.values() for arm in claim.arms if arm
    }
    for experiment, overrides in arms.values():
        load_config(experiment, overrides)
    for claim in claims.values():
        assert (published.FOLDER.parents[1] / command.default_table(claim)).exists()
    page = "\n".join(command.page(claims, published.FOLDER))
    assert (
        published.FOLDER.parents[1] / "docs" / "claims.md"
    ).read_text() == page + "\n"


def test_the_readme_counts_the_verdicts():
    """A claim that was run at several scales counts once, as decided if one decides.

    Beside that it counts by the largest scale.
    """
    claims, words, last = published_claims(), {}, {}
    for scale in SCALES:
        found = compared(scale, False)
        for name, (comparison, _) in found.items():
            words.setdefault(name, set()).add(comparison.verdict(1.0))
            last[name] = comparison.verdict(1.0)
    open_ = sum(found == {"not decided"} for found in words.values())
    holds, against = (
        sum(word in found for found in words.values()) for word in ("holds", "reversed")
    )
    assert holds + against + open_ == len(words)
    verdicts = "holds", "reversed", "not decided"
    counts = [[*last.values()].count(word) for word in verdicts]
    page = (published.FOLDER.parents[1] / "docs" / "claims.md").read_text()
    assert f"Decided at any: {holds} holds, {against} reversed; " in page
    of_last = f"{counts[0]} holds, {counts[2]} not decided, {counts[1]} reversed."
    assert f"each was run at: {of_last}" in page
    text = (
        f"- Of {len(claims)} claims of papers {len(words)} have results: {holds} hold "
        f"at one of our scales, {against} are reversed, {open_} are open at every "
        f"scale (at the largest scale that each was run at {counts[0]}, {counts[1]} "
        f"and {counts[2]})."
    )
    assert text in (published.FOLDER.parents[1] / "README.md").read_text()


def test_figures_of_the_pages_are_those_of_the_ledger():
    """Signed differences of the decided rows, and all figures of the README's section,
    are differences of claims to their last digit."""
    known = [
        found.difference
        for scale in SCALES
        for again in (False, True)
        for found, _ in compared(scale, again).values()
    ]

    def is_known(figure):
        texts = figure.lstrip("+-").split(" ± ")
        digits = [len(text.partition(".")[2]) for text in texts]
        return any(
            [round(abs(x), n) for x, n in zip(each[:2], digits, strict=True)]
            == [float(text) for text in texts]
            for each in known
        )

    root = published.FOLDER.parents[1]
    page = (root / "docs" / "results.md").read_text()
    rows = [row.split("|") for row in page.splitlines() if row.count("|") == 5]
    rows = [row for row in rows if re.match(r" (quick|smoke), \d", row[4])]
    figures = [f for row in rows for f in re.findall(r"[+-][\d.]+ ± [\d.]*\d", row[3])]
    readme = (root / "README.md").read_text()
    measured = readme[readme.index("## What it has measured") :]
    measured = measured[: measured.index("\n## ", 1)]
    figures += re.findall(r"[\d.]+ ± [\d.]*\d", measured)
    assert len(figures) >= 30
    assert not [figure for figure in figures if not is_known(figure)]


def test_every_claim_with_a_plan_says_how_to_run_it_again():
    claims = ledger.load_claims(published.FOLDER)
    of_repeat = partial(ledger.read_result, folder=published.FOLDER, repeat=True)
    for claim in claims.values():
        lines = [*command.rerun(claim, published.FOLDER)]
        sweeps = [line for line in lines if line.startswith("palimpsest sweep")]
        again = [
            f"--first_seed={result.seeds[0]}"
            for scale in claim.plans
            if (result := of_repeat(claim, scale))
        ]
        assert len(sweeps) == len(claim.plans) + len(again)
        for scale in claim.plans:
            if result := ledger.read_result(claim, scale, published.FOLDER):
                own = f"--scale={scale} --workdir=runs/"
                (of_scale,) = (s for s in sweeps if own in s and "first_seed" not in s)
                assert of_scale.endswith(f" --seeds={len(result.seeds)}")
        assert [seeds for seeds in again if seeds not in "".join(sweeps)] == []
        for line in lines:
            if file := re.search(r"experiments/sweeps/\w+\.py", line):
                assert (published.FOLDER.parents[1] / file[0]).is_file()
                of_pretrainings = "transformer_xl|images|muon"
                without = re.search(of_pretrainings, file[0])
                assert ("--tasks" in line) != bool(without)
                pictures = "--config.objective.images=N" in line
                assert pictures == ("images" in file[0])
    blimp = [*command.rerun(claims["babylm2024.causal-over-masked"], published.FOLDER)]
    assert "palimpsest score --workdir=runs/babylm-quick --task=blimp" in "".join(blimp)
    assert any("321684d02d4ea617acdbdf6f24d865ba" in line for line in blimp)
