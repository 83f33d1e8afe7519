"""The page of `palimpsest speed`: train steps and attention alone, in Markdown."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

STEPS_HEADER = (
    "network | length | attention | rows | ms | tokens/s | MFU, % | MFU halved, % | "
    "share, % | GiB"
)
STEPS_NOTE = (
    "MFU = FLOPs a step / (seconds a step x devices x the maker's bfloat16 FLOP/s). "
    "FLOPs are those of all matrix products, forward and backward, counted on the "
    "step itself, without recomputation; attention counts all pairs of query and key, "
    "masked or not, and *halved* leaves out half of causal self-attention (6 x layers "
    "x rows x length^2 x width). Share: the same FLOPs over the rate of the plain "
    "product. Tokens are those of the text (rows x length). GiB: the largest memory "
    "that a device needs at once."
)
ATTENTION_NOTE = (
    "Milliseconds forward and backward, on one device, with the mask or the sort that "
    "a network makes once; {heads} heads of width {head_width}. In brackets TFLOP/s, "
    "only of pairs that attend: 12 x pairs x heads x width."
)
MISSING = "–"


def page(figures: dict[str, Any]) -> Iterator[str]:
    """The lines of speed.md, from the result of `launch.commands.speed.measure`."""
    peak, product = (figures[f"{key}_flops_per_second"] for key in ("peak", "product"))
    share = f", {100 * product / peak:.0f} % of the maker's peak" if peak else ""
    size = figures["product_size"]
    yield (
        f"{figures['device']}, {figures['num_devices']} device(s), JAX "
        f"{figures['jax']}, bfloat16, size {figures['size']}, "
        f"{figures['seconds']:.0f} s. A plain product of two [{size}, {size}] matrices "
        f"runs at {product / 1e12:.3g} TFLOP/s on one device{share}."
    )
    if figures["steps"]:
        yield from ("", "## Train steps", "", STEPS_NOTE, "")
        rows = (_step_cells(record, figures) for record in figures["steps"])
        yield from _table(STEPS_HEADER, rows)
    if not figures["attention"]:
        return
    note = ATTENTION_NOTE.format(**figures["attention_shape"])
    yield from ("", "## Attention alone", "", note, "")
    names = dict.fromkeys(record["attention"] for record in figures["attention"])
    header = " | ".join(["pattern", "length", "rows", *names])
    yield from _table(header, _attention_rows(figures["attention"]))


def _table(header: str, rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    yield f"| {header} |"
    yield "|---|" + "--:|" * header.count("|")
    for cells in rows:
        yield f"| {' | '.join(map(str, cells))} |"


def _step_cells(record: dict[str, Any], figures: dict[str, Any]) -> list[Any]:
    cells = [record[key] for key in ("name", "length", "attention")]
    if "not_run" in record:
        return [*cells, record["not_run"], *[MISSING] * 6]
    seconds, rate = record["step_seconds"], record["flops_per_second"]
    hidden = record["flops_hidden_by_causal_masks"] / seconds
    devices = figures["num_devices"]

    def percent(rate, peak):
        return f"{100 * rate / (devices * peak):.1f}" if peak else MISSING

    return [
        *cells,
        record["rows"],
        f"{1e3 * seconds:.1f}",
        f"{record['tokens_per_second']:,.0f}",
        percent(rate, figures["peak_flops_per_second"]),
        percent(rate - hidden, figures["peak_flops_per_second"]),
        percent(rate, figures["product_flops_per_second"]),
        f"{record['peak_bytes'] / 2**30:.1f}",
    ]


def _attention_rows(records: Sequence[dict[str, Any]]) -> Iterator[list[Any]]:
    rows: dict[tuple, list[str]] = {}
    for record in records:
        cell = record.get("not_run")
        if cell is None:
            milliseconds = 1e3 * record["seconds"]
            cell = f"{milliseconds:.2f} ({record['flops_per_second'] / 1e12:.3g})"
        case = tuple(record[key] for key in ("pattern", "length", "rows"))
        rows.setdefault(case, []).append(cell)
    return ([*case, *cells] for case, cells in rows.items())
