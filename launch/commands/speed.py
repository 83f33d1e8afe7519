"""Measures speed on this machine's accelerator in one run: `palimpsest speed`.

Times train steps of the five families of objectives, and attention alone, in bfloat16
on random tokens; no text is read. Writes FOLDER/speed.json and FOLDER/speed.md, and
prints the latter. On a CPU the size is tiny, which only tries the command.
"""

import argparse
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from etils import epath

from launch.cli import Parser, main
from launch.config import load_config
from launch.reports.speed_page import page
from research.config import base
from research.files.json_files import write_json
from research.files.output_files import replace_text

BARE_ELECTRA = {
    "objective.format": "stream",
    "model.norm_placement": "pre",
    "model.dropout": 0.0,
    "model.token_types": 0,
    "model.init": "normal",
}
"""Keys that undo the paper's settings in experiments/electra.py."""

NETWORKS = {
    "lm": ("experiments/lm.py", {}),
    "mlm": ("experiments/mlm.py", {}),
    "plm": ("experiments/plm.py", {}),
    "plm, relative positions": ("experiments/plm.py", {"model.position": "relative"}),
    "dae": ("experiments/dae.py", {}),
    "electra": ("experiments/electra.py", BARE_ELECTRA),
}
"""Name -> an experiment, and its overrides besides the size."""


SENTINELS = 128
"""Number of sentinels; dae hides 103 spans in 2048 tokens."""


class Size(NamedTuple):
    """What is measured."""

    keys: dict[str, Any]  # config keys
    step_lengths: tuple[int, ...]
    step_tokens: int  # tokens of a step on each device; fewer if they do not fit
    attention_lengths: tuple[int, ...]
    attention_tokens: int  # in all rows, for attention alone; at least one row
    heads: int  # for attention alone
    head_width: int
    product: int  # rows and columns of the matrices of a plain matrix product


SIZES = {
    "tiny": Size(base.SIZES["tiny"], (32, 64), 64, (16, 32), 32, 2, 8, 256),
    "base": Size(
        base.SIZES["base"], (512, 2048), 2**15, (512, 2048, 8192), 2**14, 12, 64, 8192
    ),
}


def run(args: argparse.Namespace) -> None:
    import jax

    name = args.size or ("tiny" if jax.default_backend() == "cpu" else "base")
    folder = Path(args.folder)
    folder.mkdir(parents=True, exist_ok=True)
    size = SIZES[name]
    if args.only == "steps":
        size = size._replace(attention_lengths=())
    if args.only == "attention":
        size = size._replace(step_lengths=())
    figures = {"size": name} | measure(size, args.seconds)
    write_json(folder / "speed.json", figures)
    text = "\n".join(page(figures)) + "\n"
    replace_text(epath.Path(folder / "speed.md"), text)
    print(text)


def measure(size: Size, seconds: float) -> dict[str, Any]:
    """All figures, in the format of speed.json.

    Args:
      seconds: time after which no further job begins; the remaining ones are recorded
        as not measured.
    """
    import jax

    from launch.measure import accelerators
    from launch.measure.attention_speed import attention_jobs, product_rate
    from launch.measure.timing import run_jobs
    from research.record.provenance import device_name

    began = time.monotonic()
    chip = accelerators.find_chip(jax.devices()[0].device_kind)
    product = product_rate(size.product)
    shape = {"heads": size.heads, "head_width": size.head_width}
    attention = attention_jobs(
        size.attention_lengths, tokens=size.attention_tokens, **shape
    )
    jobs = [*_step_jobs(size), *attention]
    records = run_jobs(jobs, seconds - (time.monotonic() - began))
    return {
        "device": device_name(),
        "num_devices": jax.device_count(),
        "jax": jax.__version__,
        "product_size": size.product,
        "product_flops_per_second": product,
        "peak_flops_per_second": chip.flops if chip else None,
        "attention_shape": shape,
        "steps": [record for record in records if "name" in record],
        "attention": [record for record in records if "pattern" in record],
        "seconds": time.monotonic() - began,
    }


def _step_jobs(size: Size) -> Iterator[Any]:
    import jax

    from launch.measure.step_speed import step_job
    from research.networks.transformer import kernels

    states: dict[str, Any] = {}
    implementations = kernels.names(kernels.platform())
    for name, (experiment, changes) in NETWORKS.items():
        for length in size.step_lengths:
            rows = max(1, size.step_tokens // length) * jax.device_count()
            for implementation in implementations:
                keys = {
                    **size.keys,
                    **changes,
                    "data.length": length,
                    "data.sentinels": SENTINELS,
                    "model.attention": implementation,
                    "model.dtype": "bfloat16",
                    "model.max_length": max(size.step_lengths),
                    "train.batch": rows,
                }
                facts = {
                    "name": name,
                    "length": length,
                    "attention": implementation,
                }
                yield step_job(facts, partial(load_config, experiment, keys), states)


def parser() -> Parser:
    parser = Parser(__doc__, overrides=False)
    parser.add_path("--folder", default="runs/speed", help="output folder")
    parser.add_argument("--size", choices=SIZES, help="default: base, on a CPU tiny")
    parser.add_argument(
        "--only", choices=("steps", "attention"), help="what is timed; default: both"
    )
    parser.add_argument(
        "--seconds", type=float, default=450.0, help="approximate duration of the run"
    )
    return parser


if __name__ == "__main__":
    main(run, parser())
