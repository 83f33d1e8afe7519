"""Prints the tables of docs/packing.md: padding of rows, cut documents, and speed.

python -m experiments.studies.packing --config=experiments/mlm.py \\
    --config.data.corpus='w/*.jsonl'
"""

import itertools
import time

import numpy as np

from launch.cli import Parser, main
from launch.config import load_config
from research.contract.batch import NEVER
from research.data.rows.packing.documents import text_sizes
from research.program.setup import open_run_data

LENGTHS = (128, 512, 2048)
OBJECTIVES = ("lm", "mlm", "plm", "electra", "dae", "bart", "mass")
PACKED = {"data.packing": "best_fit"}
PASSAGE = {"objective.name": "mlm", "objective.format": "doc_sentences"}
NUM_BATCHES, NUM_ROUNDS, ROUND_BATCHES, SPEED_LENGTH = 64, 5, 32, 512


def run(args) -> None:
    def sources(fields: dict) -> list:
        changes = [args.overrides | fields | {"data.length": n} for n in LENGTHS]
        return [open_train(args.config, change) for change in changes]

    stream, passage = sources({"objective.name": "mlm"}), sources(PASSAGE)
    print_row("stream: documents cut", [f"{cut_fraction(s):.1f}" for s in stream])
    print_row("passage: documents cut", [f"{cut_fraction(p):.1f}" for p in passage])
    print_row("passage: padding", [padding(source) for source in passage])
    for name in OBJECTIVES:
        packed = sources({"objective.name": name} | PACKED)
        print_row(f"packed, {name}: padding", [padding(source) for source in packed])
    for name in OBJECTIVES:
        fields = {"objective.name": name, "data.length": SPEED_LENGTH}
        each = args.overrides | fields
        both = [open_train(args.config, each | more) for more in ({}, PACKED)]
        print_row(f"packed, {name}: speed", [f"{speed_ratio(*both):.2f}"])


def print_row(label: str, cells: list[str]) -> None:
    print(f"| {' | '.join([label, *cells])} |", flush=True)


def open_train(config: str, overrides: dict):
    """The training pipeline of a config."""
    loaded = load_config(config, overrides)
    return open_run_data(loaded).train


def padding(pipeline) -> str:
    """Positions of each network input that are padding, in percent; without queries."""
    used, total = {}, {}
    for batch in itertools.islice(pipeline.batches(), NUM_BATCHES):
        for prefix in ("", "encoder_", "decoder_"):
            if prefix + "segment" not in batch:
                continue
            segment, rank = batch[prefix + "segment"], batch[prefix + "rank"]
            if (rank == NEVER).any():
                segment = segment[:, : -batch["target"].shape[1]]
            used[prefix] = used.get(prefix, 0) + np.count_nonzero(segment)
            total[prefix] = total.get(prefix, 0) + segment.size
    return " + ".join(f"{100 - 100 * used[p] / total[p]:.1f}" for p in total)


def cut_fraction(pipeline) -> float:
    """The percentage of documents that would fit in a row but are in more than one."""
    (index,) = pipeline.source.indices
    begin, size = index.stream.document_offsets[:-1], text_sizes(index.stream)
    fits = (size > 0) & (size <= index.length.max())
    first, last = (
        np.searchsorted(index.start, place[fits], side="right")
        for place in (begin, begin + size - 1)
    )
    return 100 * float(np.mean(first != last))


def speed_ratio(stream, packed) -> float:
    """Text tokens a second of a processor, of packed rows / of a stream's rows.

    Of each the best of rounds that alternate.
    """
    best = {}
    for _ in range(NUM_ROUNDS):
        for pipeline in (stream, packed):
            batches = pipeline.batches()
            next(batches)  # opens the files
            start = time.process_time()
            for _ in range(ROUND_BATCHES):
                next(batches)
            (index,) = pipeline.source.indices
            rate = index.length.mean() / (time.process_time() - start)
            best[pipeline] = max(best.get(pipeline, 0.0), rate)
    return best[packed] / best[stream]


def parser() -> Parser:
    parser = Parser(__doc__)
    parser.add_argument("--config", required=True, help="experiments/X.py[:size]")
    return parser


if __name__ == "__main__":
    main(run, parser())
