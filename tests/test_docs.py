"""The generated pages: failed tests are reported, and tables have all their rows."""

import csv
import gzip
import importlib
import itertools
import json
import math
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from experiments.studies import (
    learning_curves,
    objectives,
    output_language,
    parts,
    reads,
    roofline,
    simulations,
    slices,
    statistics,
    words_apart,
)
from research.contract.errors import UserError
from research.evaluation.statistics import estimate

STALE = "docs/objectives.md is stale: make docs"


def test_the_page_of_parts_has_all_in_their_own_words():
    assert parts.page() == parts.PAGE.read_text(), "docs/parts.md is stale: make docs"


def test_the_page_of_parts_has_each_table_whose_entries_have_a_line():
    """Those of a key are found by their key, others are declared (`PartTable`)."""
    page, found = parts.PAGE.read_text(), []
    for root in ("research", "launch"):
        for file in (parts.ROOT / root).rglob("*.py"):
            if not re.search(r"^    line: str\b.*for users", file.read_text(), re.M):
                continue
            module = ".".join(file.relative_to(parts.ROOT).with_suffix("").parts)
            tables = vars(importlib.import_module(module)).values()
            for table in (each for each in tables if isinstance(each, dict)):
                entries = {n: e for n, e in table.items() if hasattr(e, "line")}
                missing = [
                    n for n, e in entries.items() if parts.cell(e.line) not in page
                ]
                assert not missing, f"{file}: {missing}"
                found += entries
    assert len(found) > 20


def test_the_page_of_objectives_has_all_in_their_own_words(monkeypatch):
    """The test below, without networks."""
    lines = objectives.PAGE.read_text().splitlines()
    rows = [line.strip("| ").split(" | ") for line in lines if " | " in line]
    shown = {row[0].strip("`"): (row[-2], row[-1]) for row in rows}
    found = lambda path: shown.get(path.stem, ("", ""))  # noqa: E731
    monkeypatch.setattr(objectives, "objective_and_sizes", found)
    assert objectives.page() == objectives.PAGE.read_text(), STALE


@pytest.mark.long
def test_the_page_of_objectives_has_the_sizes_of_experiments():
    assert objectives.page() == objectives.PAGE.read_text(), STALE


def test_a_row_names_the_objectives_of_all_sizes(monkeypatch):
    monkeypatch.setattr("research.program.setup.count_parameters", lambda params: 10**6)
    state = SimpleNamespace(params=None)
    made = SimpleNamespace(abstract_state=state)
    monkeypatch.setattr("research.program.setup.build_program", lambda *_, **__: made)
    name, sizes = objectives.objective_and_sizes(Path("experiments/word2vec.py"))
    assert name == "`skipgram`, `cbow`"
    assert sizes == "tiny 1.0, small 1.0, base 1.0"


def test_the_table_of_slices_has_a_row_for_each_case():
    _, _, rest = slices.PAGE.read_text().partition(slices.HEADER)
    rows = rest.partition("\n\n")[0].splitlines()
    labels = [[cell.strip() for cell in row.split("|")[1:3]] for row in rows]
    assert labels == [[label, topology] for label, topology, _ in slices.cases()]


def test_the_table_of_rooflines_is_that_of_its_records():
    _, _, rest = roofline.PAGE.read_text().partition(roofline.HEADER)
    records = json.loads(roofline.RECORDS.read_text())
    rows = [roofline.row(name, record) for name, record in records.items()]
    assert rest.partition("\n\n")[0] + "\n" == "".join(rows)


def test_a_data_parallel_step_scales_by_its_group_alone():
    """As `palimpsest compile` has it of bert.py:tiny on cpu:8 and cpu:32."""
    record = {
        "num_devices": 8,
        "batch": 16,
        "flops_per_step": 528855040.0,
        "recomputed_flops_per_step": 0.0,
        "collectives": {"all-reduce": {"sent_bytes": 2381624.0}},
    }
    assert roofline.on_chips(record, 32) == {
        "num_devices": 32,
        "batch": 64,
        "flops_per_step": 4 * 528855040.0,
        "recomputed_flops_per_step": 0.0,
        "collectives": {"all-reduce": {"sent_bytes": 2636798.0}},
    }


def test_the_times_of_a_million_tokens_are_those_of_the_measured_rates():
    def numbers(page):
        text = (statistics.PAGE.parent / page).read_text()
        rows = re.findall(r"^\| (lm|mlm|plm|dae|electra) \|(.*)\|$", text, re.MULTILINE)
        return [(name, cells.replace(",", "").split("|")) for name, cells in rows]

    measured = {
        (name, float(cells[0]), float(cells[1]))
        for name, cells in numbers("performance.md")
        if any("at least" in cell for cell in cells)
    }
    shown = [(name, *map(float, cells)) for name, cells in numbers("times.md")]
    assert {(name, rate, other) for name, rate, _, other, _ in shown} == measured
    for _, rate, seconds, other, less in shown:
        assert (seconds, less) == (round(1e6 / rate), round(1e6 / other))


def _rates(title: str) -> dict[tuple[str, str], dict[str, float]]:
    """The rates of the first table of a section of docs/statistics.md."""
    section = (
        statistics.PAGE.read_text().split(f"## {title}\n")[1].partition("\n\n|")[2]
    )
    lines = [
        line.strip("|").split("|") for line in section.split("\n\n")[0].splitlines()
    ]
    (_, _, *names), _, *rows = [[cell.strip() for cell in line] for line in lines]
    return {
        (seeds, other): dict(
            zip(names, (float(rate) / 100 for rate in rates), strict=True)
        )
        for seeds, other, *rates in rows
    }


def _keys(seeds, others) -> list[tuple[str, str]]:
    shown = [
        " : ".join(map(str, other)) if isinstance(other, tuple) else f"{other:g}"
        for other in others
    ]
    return list(itertools.product(map(str, seeds), shown))


def test_the_statistics_in_use_pass_on_their_page():
    """With four standard errors of 10,000 simulations."""
    covered, families = _rates("Coverage"), _rates("Family-wise error")
    assert list(covered) == _keys(statistics.SEEDS, statistics.SHARES)
    assert list(families) == _keys(statistics.FAMILY_SEEDS, statistics.FAMILY_SHARES)
    assert all(0.94 < rates["ours"] < 0.97 for rates in covered.values())
    assert max(rates["ours, Holm"] for rates in families.values()) < 0.05 + 4 * 0.0022
    powers = _rates("Power")
    assert list(powers) == _keys(statistics.FAMILY_SEEDS, statistics.DIFFERENCES)
    for rates in powers.values():
        assert rates["predicted"] == pytest.approx(rates["paired"], abs=0.02)
    accuracies = _rates("Accuracies")
    assert list(accuracies) == _keys(
        statistics.FAMILY_SEEDS, statistics.ACCURACY_SEED_SD
    )
    assert all(0.94 < rates["coverage"] < 0.97 for rates in accuracies.values())


def test_the_page_of_statistics_is_that_of_its_simulations(monkeypatch):
    monkeypatch.setattr(simulations, "NUM_SIMULATIONS", 1000)
    page = _rates("Coverage")["3", "4 : 1 : 1"]
    found = simulations.coverage(3, (4, 1, 1))
    assert found.keys() == page.keys()
    for name, rate in page.items():
        assert abs(found[name] - rate) < 4 * math.sqrt(1.1 * rate * (1 - rate) / 1000)


def test_the_learning_curves_of_the_page_are_those_of_their_numbers():
    table = learning_curves.page_table(learning_curves.NUMBERS)
    assert table in Path("docs/results.md").read_text()
    tags = learning_curves.read_scores(learning_curves.NUMBERS, learning_curves.TAGS)
    assert learning_curves.draw(tags) == learning_curves.FIGURE.read_text()


def test_the_objectives_with_more_flops_are_those_of_their_numbers():
    columns = ("tokens, M", "bits a byte, at most", "POS, frozen", "BLiMP", "Zorro")
    scores: dict[str, dict[str, list[float]]] = {}
    with Path("docs/since_2020_long.csv").open() as file:
        for line in csv.DictReader(file):
            column = line["column"].replace("pseudo-bits a byte", columns[1])
            own = scores.setdefault(line["row"], {}).setdefault(column, [])
            own.append(float(line["value"]))  # in the order of seeds
    page = Path("docs/since_2020.md").read_text().split("### With 2.5 times")[1]
    rows = [line.split("|")[1:-1] for line in page.splitlines() if line[:2] == "| "]
    of_lm, seen = scores["LM"], set()
    for name, tokens, bits, tags, gap, *pairs in [*map(_stripped, rows)][2:9]:
        own = scores[name.removesuffix(", its causal part")]
        shown = [tokens, bits.removeprefix("(pseudo) "), tags, *pairs]
        for column, cell in zip(columns, shown, strict=True):
            values = own.get(column)
            assert bool(values) == bool(cell), (name, column)
            if values:
                seen.add((name, column))
                mean, margin, _ = estimate(values)
                digits = {columns[0]: 2, columns[1]: 3}.get(column, 1)
                value, *error = cell.split(" ± ")
                assert value == f"{mean:.{digits}f}"
                if column in columns[1:3]:  # intervals of pairs are also over items
                    assert float(error[0]) == round(margin, digits)
        if name != "LM":
            found = np.subtract(own[columns[2]], of_lm[columns[2]])
            mean, margin, _ = estimate(found)
            assert gap.strip("*") == f"{mean:+.1f} ± {margin:.1f}"
    assert len(seen) == 30


def _stripped(cells):
    return [cell.strip() for cell in cells]


def test_texts_of_the_trial_of_languages_are_apart(tmp_path, monkeypatch):
    """Captions of the task are not among those of pretraining; pairs are aligned."""
    monkeypatch.setattr(output_language, "NUM_PAIRS", 2)
    captions = {
        "en": ["The man, in a Hat.", "Two\tdogs", "A cat is on the mat"],
        "de": ["Der Mann mit Hut.", "Zwei Hunde", "Eine Katze"],
        "fr": ["L'homme été", "Deux chiens", "Un chat"],
    }
    for language, lines in captions.items():
        for split in ("train", "val", "test_2016_flickr"):
            path = tmp_path / f"{split}.{language}.gz"
            path.write_bytes(gzip.compress("\n".join(lines).encode()))
    for pair in ("de-en.de", "de-en.en", "fr-en.fr", "fr-en.en"):
        (tmp_path / pair).write_text("Ja!\n")
    flags = [f"--{name}={tmp_path}" for name in ("multi30k", "tatoeba", "to")]
    output_language.run(output_language.parser().parse_args(["texts", *flags]))
    pairs = (tmp_path / "en-de.tsv").read_text().splitlines()
    assert pairs == ["the man, in a hat.\tder mann mit hut.", "two dogs\tzwei hunde"]
    texts = {name: (tmp_path / f"{name}.jsonl").read_text() for name in ("fr", "train")}
    assert texts["fr"].splitlines()[0] == '{"text": "l\'homme ete"}'
    assert texts["fr"].count("\n") == 3 and "ja!" in texts["fr"]
    assert json.loads(texts["train"]) == {
        "words": "cat mat",
        "caption": "a cat is on the mat",
    }


def test_a_text_in_another_language_is_not_in_the_right_one():
    lines = [
        {"direction": each, "caption": "eine katze sitzt hier", "text": text}
        for each, text in (
            ("en-de", "eine katze sitzt hier"),
            ("en-de", "a cat"),
            ("de-de", "a cat"),
        )
    ]
    identify = lambda text: "en" if "cat" in text else "de"  # noqa: E731
    right, chrf, bleu = output_language.measure(lines, "en-de", identify)
    assert right == 50 and 0 < bleu < 100 and 0 < chrf < 100
    assert output_language.measure(lines, "de-de", identify)[0] == 0


def test_words_and_marks_are_apart_in_sentences_of_a_line_each(tmp_path):
    text = tmp_path / "a.jsonl"
    text.write_text(
        '{"text": "It\'s half-baked, isn\'t it? No.<br />"}\n{"text": ""}\n'
    )
    (line,) = words_apart.lines([text])
    found = json.loads(line)["text"].splitlines()
    assert found == ["it 's half-baked , is n't it ?", "no ."]
    text.write_text('{"text": "a"}\n{"body": "b"}\n')
    with pytest.raises(UserError, match=r"a\.jsonl, line 2: .*\"text\""):
        [*words_apart.lines([text])]


def test_the_figure_of_what_states_read_has_windows_and_directions():
    """As the page's table says: NNLM four words, ELMo's halves one direction each."""
    first, last = reads.reads(*reads.PANELS["NNLM"])
    ones = np.ones_like(first)
    window = np.tril(ones) & np.triu(ones, -3)
    assert (first == window).all() and (last == window).all()
    first, last = reads.reads(*reads.PANELS["ELMo: each direction"])
    assert (first == np.tril(ones)).all() and (last == np.triu(ones)).all()
