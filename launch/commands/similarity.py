"""Computes how similar texts are: `palimpsest similarity --workdir=R "a" "another"`.

Prints the cosine similarity of the vectors of two texts, as `palimpsest embed` computes
them. R is a run, whose newest or best checkpoint is read, or hf:DIR, a model in Hugging
Face's layout.

--data=F reads pairs from a file: --fields=A,B are the columns of the texts, by name, or
by number in a file without a header. With --label=COLUMN, the human ratings, it prints
Spearman's and Pearson's correlation of the cosines with them, each with half the width
of its 95 % interval over the pairs (STS-B; papers report Spearman's). --to=V.jsonl
writes one line per pair: texts, similarity, gold.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from types import SimpleNamespace

from launch import cli, given_texts


def run(args: argparse.Namespace) -> None:
    from research.contract.errors import UserError, renamed_keys

    given_texts.check_examples(args, 'two texts, as in "a text" "another"')
    if args.parts and len(args.parts) != 2:
        raise UserError(f"a pair has 2 texts, got {len(args.parts)}")

    from research.data.documents import document_parts
    from research.data.options import DataOptions
    from research.evaluation.items import item_margins
    from research.evaluation.rated_pairs import CORRELATIONS, read_pairs
    from research.files.output_files import write_output
    from research.metrics import Item, measure
    from research.metrics.correlations import UNDEFINED
    from research.objectives import make_objective
    from research.use.inference.open_run import open_run

    if blank := [part for part in args.parts if not part.strip()]:
        raise UserError(f"{blank[0]!r} is blank; give two texts")
    if args.parts:
        cosine = float(open_run(args.workdir).similarity([args.parts])[0])
        if args.to:
            write_output(args.to, _line(args.parts, cosine, None), "--to")
        else:
            print(f"{cosine:.4f}")
        return
    data = DataOptions(
        test=args.data, eval_split="test", fields=args.fields, label=args.label
    )
    with renamed_keys(given_texts.FLAGS):
        documents = read_pairs(data, make_objective("sentence_vectors", texts=2))
    pairs = [document_parts(document) for document in documents]
    model = open_run(args.workdir)
    items = [
        Item(document.id, float(cosine), _number(document.label), None, pair)
        for document, pair, cosine in zip(
            documents, pairs, model.similarity(pairs), strict=True
        )
    ]
    known = [item for item in items if item.gold is not None]
    found = measure("number", known, ()) if len(known) > 1 else {}
    of_numbers = SimpleNamespace(predicts="number")
    reader = SimpleNamespace(vocab=SimpleNamespace(labels=()), classes=())
    margins = item_margins(known, of_numbers, reader)
    for name in reversed(CORRELATIONS):
        if name in found:
            over_pairs = f" ± {margins[name]:.2g}" if name in margins else ""
            print(f"{name} {found[name]:.4f}{over_pairs}")
    if known and not found.keys() & {*CORRELATIONS}:
        print(f"no correlation: {UNDEFINED}", file=sys.stderr)
    lines = "".join(_line(item.texts, item.prediction, item.gold) for item in items)
    if args.to:
        write_output(args.to, lines, "--to")
    elif not found:
        print(lines, end="")
    print(f"{len(items)} pairs", file=sys.stderr)


def _line(texts: Sequence[str], similarity: float, gold: float | None) -> str:
    row = {"texts": texts, "similarity": similarity, "gold": gold}
    return json.dumps(row, ensure_ascii=False) + "\n"


def _number(label: str | None) -> float | None:
    return None if label is None else float(label)


def parser() -> cli.Parser:
    parser = cli.Parser(__doc__, overrides=False)
    given_texts.add_workdir(parser)
    given_texts.add_examples(parser, "two texts", "column of their similarity")
    return parser


if __name__ == "__main__":
    cli.main(run, parser())
