"""Draws the rooflines of docs/performance.md: published sizes, from 8 to 256 chips.

make roofline

Compiles what docs/roofline.json does not have yet, each a `palimpsest compile` on
8 chips, all of them data parallel; after each the page and docs/roofline.svg are drawn
anew. With more chips and the same batch a chip a step differs in the size of the group
that adds up gradients alone. Exits with 1 if one of them could not be compiled.
"""

import json
import re
import subprocess
import sys
from collections.abc import Container, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib.pyplot as plt

from launch.measure.accelerators import find_chip
from launch.measure.roofline import bound

PAGE = Path(__file__).parents[2] / "docs" / "performance.md"
RECORDS = Path(__file__).parents[2] / "docs" / "roofline.json"
FIGURE = Path(__file__).parents[2] / "docs" / "roofline.svg"
TOPOLOGIES = ("v5e:2x4", "v6e:2x4")
COMPILED_CHIPS = 8
CHIPS = (8, 16, 32, 64, 128, 256)
KEPT = (
    "device num_devices batch length flops_per_step recomputed_flops_per_step "
    "computed_flops_by_kind hbm_traffic_bytes"
)
"""Facts of `palimpsest compile` that a record has, beside `collectives`."""


class Case(NamedTuple):
    """A published size and its batch on a chip."""

    label: str
    experiment: str
    rows: int  # of a chip
    attention: str = "dense"  # model.attention


CASES = [
    Case("BERT base", "bert.py:base", 16),
    Case("BERT base, interval", "bert.py:base", 16, "interval"),
    Case("GPT-2 base", "gpt2.py:base", 4),
    Case("T5 base", "t5.py:base", 8),
    Case("BART base", "bart.py:base", 16),
    Case("ELECTRA base", "electra.py:base", 16),
    Case("XLNet base", "xlnet.py:base", 4),
    Case("XLNet base, interval", "xlnet.py:base", 4, "interval"),
    Case("BERT large, interval", "bert.py:large", 8, "interval"),
]

HEADER = (
    "| | chip | tokens a chip | TFLOP | HBM, GB | sent, MB | compute, ms | memory, ms "
    "| network, ms | bound by | step ≥, ms | MFU ≤, % | M tokens/s ≤, 8 chips "
    "| 256 chips |\n"
    "|---|---|--:|--:|--:|--:|--:|--:|--:|---|--:|--:|--:|--:|\n"
)
MARKERS = "oxsD^vP*<"
COLOURS = {"compute": "#222222", "memory": "#8a9bb4", "network": "#ffffff"}


def main() -> int:
    failed = 0
    records = json.loads(RECORDS.read_text("utf-8")) if RECORDS.exists() else {}
    draw(records)
    for name, case, topology in named_cases():
        if name not in records:
            print(name, file=sys.stderr, flush=True)
            if not (record := compile_case(case, topology)):
                failed += 1
                continue
            records[name] = record
            in_order = {name: records[name] for name, *_ in named_cases(records)}
            RECORDS.write_text(json.dumps(in_order, indent=1) + "\n", "utf-8")
            draw(in_order)
    return int(failed > 0)


def named_cases(names: Container[str] | None = None) -> Iterator[tuple]:
    """The name of each record, if it is among `names`, its case and its slice."""
    for topology in TOPOLOGIES:
        for case in CASES:
            name = f"{case.label} {topology}"
            if names is None or name in names:
                yield name, case, topology


def compile_case(case: Case, topology: str) -> dict[str, Any] | None:
    """The facts of one step that the page needs; None if the compiler fails."""
    command = [
        sys.executable,
        "-m",
        "launch.commands.compile",
        f"--topology={topology}",
    ]
    command += [f"--config=experiments/{case.experiment}"]
    command += [f"--config.train.batch={COMPILED_CHIPS * case.rows}"]
    command += [f"--config.model.attention={case.attention}"]
    done = subprocess.run(command, stdout=subprocess.PIPE)
    if done.returncode:
        print(f"not compiled: {' '.join(command[1:])}", file=sys.stderr)
        return None
    facts = json.loads(done.stdout)
    sent = {
        name: {"sent_bytes": collective["sent_bytes"]}
        for name, collective in facts["collectives"].items()
    }
    return {name: facts[name] for name in KEPT.split()} | {"collectives": sent}


def on_chips(record: dict[str, Any], num_chips: int) -> dict[str, Any]:
    """A record with the same batch a chip on another number of chips.

    The collectives of a data-parallel step are of all chips, and each sends (n - 1)/n
    of their bytes, once or twice.
    """
    before = record["num_devices"]
    ratio = (1 - 1 / num_chips) / (1 - 1 / before)
    scaled = ("batch", "flops_per_step", "recomputed_flops_per_step")
    return record | {
        **{name: record[name] * num_chips // before for name in scaled},
        "num_devices": num_chips,
        "collectives": {
            name: {"sent_bytes": ratio * collective["sent_bytes"]}
            for name, collective in record["collectives"].items()
        },
    }


def bound_on(record: dict[str, Any], num_chips: int) -> dict[str, Any]:
    return bound(on_chips(record, num_chips), find_chip(record["device"]))


def row(name: str, record: dict[str, Any]) -> str:
    """A row of the table, on the most chips."""
    label, topology = name.rsplit(" ", 1)
    chips = CHIPS[-1]
    record = on_chips(record, chips)
    found = bound(record, find_chip(record["device"]))
    flops = record["flops_per_step"] + record["recomputed_flops_per_step"]
    sent = sum(each["sent_bytes"] for each in record["collectives"].values())
    cells = [label, topology.split(":")[0]]
    cells.append(f"{record['batch'] * record['length'] / chips:,.0f}")
    cells.append(f"{flops / chips / 1e12:.1f}")
    cells += [f"{record['hbm_traffic_bytes'] / 1e9:.1f}", f"{sent / 1e6:,.0f}"]
    cells += [f"{1e3 * found[f'{roof}_seconds']:.1f}" for roof in COLOURS]
    cells += [found["by"], f"{1e3 * found['step_seconds_at_least']:.1f}"]
    cells.append(f"{100 * found['mfu_at_most']:.0f}")
    for number in (COMPILED_CHIPS, chips):
        rate = bound_on(record, number)["tokens_per_second_at_most"]
        cells.append(f"{rate / 1e6:.2f}")
    return f"| {' | '.join(cells)} |\n"


def draw(records: dict[str, dict[str, Any]]) -> None:
    """Writes the table and the figure."""
    rows = "".join(row(name, record) for name, record in records.items())
    table = re.escape(HEADER) + r"(\|.*\n)*"
    page = PAGE.read_text("utf-8")
    PAGE.write_text(re.sub(table, lambda _: HEADER + rows, page), "utf-8")
    plt.rcParams.update({"svg.hashsalt": "palimpsest", "svg.fonttype": "none"})
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 0.42 * len(records) + 1.6))
    draw_times(left, records)
    draw_scaling(right, records)
    figure.tight_layout()
    figure.savefig(FIGURE, metadata={"Date": None})
    plt.close(figure)


def draw_times(axis, records: dict[str, dict[str, Any]]) -> None:
    """Milliseconds of each roof, a group of bars for each record."""
    hatches = dict(zip(COLOURS, ("", "", "////"), strict=True))
    for number, roof in enumerate(COLOURS):
        times = [
            1e3 * bound_on(record, CHIPS[-1])[f"{roof}_seconds"]
            for record in records.values()
        ]
        axis.barh(
            [place + 0.27 * (number - 1) for place in range(len(times))],
            times,
            height=0.25,
            color=COLOURS[roof],
            edgecolor=COLOURS["compute"],
            linewidth=0.6,
            hatch=hatches[roof],
            label=roof,
        )
    axis.set_yticks(range(len(records)), [name.split(":")[0] for name in records])
    axis.invert_yaxis()
    axis.set_xlabel(f"ms of a step at least, {CHIPS[-1]} chips")
    axis.legend(frameon=False, ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1))


def draw_scaling(axis, records: dict[str, dict[str, Any]]) -> None:
    """The network's time in percent of the longer one of the others, by chips."""
    for number, (name, record) in enumerate(records.items()):
        shares = []
        for chips in CHIPS:
            found = bound_on(record, chips)
            others = max(found["compute_seconds"], found["memory_seconds"])
            shares.append(100 * found["network_seconds"] / others)
        axis.plot(
            CHIPS,
            shares,
            "-" if TOPOLOGIES[0] in name else "--",
            marker=MARKERS[number % len(CASES)],
            markersize=4,
            linewidth=0.8,
            color=COLOURS["compute"],
            label=name.split(":")[0],
        )
    axis.set_xscale("log", base=2)
    axis.set_ylim(0, 105)
    axis.axhline(100, color=COLOURS["compute"], linewidth=0.6)
    axis.set_xticks(CHIPS, [str(chips) for chips in CHIPS])
    axis.set_xlabel("chips, the same batch a chip")
    axis.set_ylabel("network, % of the next roof")
    axis.legend(frameon=False, fontsize=7, ncols=2)


if __name__ == "__main__":
    sys.exit(main())
