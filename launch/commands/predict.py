"""Predicts for texts of your own: `palimpsest predict --workdir=R "a sentence"`.

R is a run of a task (classification, tagging, question answering, regression, multiple
choice, or sequence to sequence), whose newest or best checkpoint is read, or hf:DIR, a
model in Hugging Face's layout whose class has a task's head. The texts after the flags
are the parts of one example, in the order in which the run read them: a sentence; two
sentences; a question and its context; a question and its choices. If the run reads
single texts, each is an example. For a tagger too, unless no text has a space: then
they are the words of one sentence.

--data=F reads many examples from a file instead, as the run read its own (data.format,
data.fields, data.label; the label may be missing). For hf:DIR, or another kind of file,
--fields and --label name the columns; for question answering --fields defaults to
question,context. A .txt file has one text per line.

For a run of picture_classification, --pictures=P is the picture of the text after the
flags, or contains those named by the column `file` of the table --data (as `palimpsest
images` reads it), with texts in `caption` (--fields=image,question names others).

Prints a table for each example. For --data it writes one JSON line per example, to --to
or the terminal: id, prediction, texts, and if available probabilities, chunks of tags
(type, text, index of the first character and of the one after the last), gold, score. A
line of a .txt without a prediction, such as a blank one, has `error` instead.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from launch import cli, given_texts


def run(args: argparse.Namespace) -> None:
    given_texts.check_examples(args, 'the texts of an example, as in "a sentence"')

    from research.evaluation.prediction_files import line
    from research.files.output_files import write_output
    from research.metrics import Item
    from research.use.inference.open_run import open_run
    from research.use.inference.predict import Predictor

    predictor = None if args.pictures else Predictor(open_run(args.workdir))
    if predictor is None:
        items = _of_pictures(args)
    elif args.parts:
        items = predictor.predict(predictor.split_examples(args.parts))
    elif Path(args.data).suffix == ".txt":
        from research.data.read.files import read_texts

        items = predictor.predict_each(read_texts(Path(args.data), "--data"))
        cli.print_unanswered("text", items)
    else:
        from research.contract.errors import renamed_keys

        with renamed_keys(given_texts.FLAGS):
            items = predictor.predict_file(args.data, args.fields, args.label)
    if args.parts and not args.to:
        titled = len(items) > 1
        print("\n\n".join("\n".join(_table(item, titled)) for item in items))
        return
    content = "".join(
        f"{line(each) if isinstance(each, Item) else _error(number, each)}\n"
        for number, each in enumerate(items, 1)
    )
    if not args.to:
        print(content, end="")
        return
    write_output(args.to, content, "--to")
    print(f"{args.to}: {len(items)} predictions", file=sys.stderr)


def _of_pictures(args: argparse.Namespace) -> list[Any]:
    """The predictions for pictures and their texts.

    Raises:
      UserError: the run reads no pictures, or a row is wrong.
    """
    from research.use.inference.own_pictures import objective_of, open_with_pictures
    from research.use.inference.predict import Predictor, check_predicts

    check_predicts(objective_of(args.workdir))
    rows, source = given_texts.picture_rows(args)
    label = "label" if any(row.label is not None for row in rows) else ""
    with open_with_pictures(args.workdir, source, rows) as (model, file):
        return Predictor(model).predict_file(str(file), label=label)


def _error(number: int, error: Exception) -> str:
    """The line of an example without a prediction."""
    return json.dumps({"id": str(number), "error": str(error)}, ensure_ascii=False)


def _table(item: Any, titled: bool) -> list[str]:
    """The lines that show a prediction, its most probable value first.

    Args:
      titled: the first line shows its texts, except words that are in the table.
    """
    details = item.details
    if "chunks" in details:
        rows = zip(item.prediction, details["probabilities"], item.texts, strict=True)
        lines = ["probability  tag           word"]
        lines += [f"{p or 0:11.4f}  {tag:12}  {word}" for tag, p, word in rows]
        chunks = [f"{chunk['type']}: {chunk['text']}" for chunk in details["chunks"]]
        return lines + [""] * bool(chunks) + chunks
    title = [" | ".join(item.texts)] * titled
    if probabilities := details.get("probabilities"):
        rows = [f"{value:11.4f}  {name}" for name, value in probabilities.items()]
        return [*title, "probability  class", *rows]
    return [*title, str(item.prediction)]


def parser() -> cli.Parser:
    from research.data.read.picture_sources import kinds

    parser = cli.Parser(__doc__, overrides=False)
    given_texts.add_workdir(parser)
    parts, label = "the parts of one example", "column of the label, if any"
    given_texts.add_examples(parser, parts, label)
    parser.add_path("--pictures", default="", help=f"picture, or {kinds()} of them")
    return parser


if __name__ == "__main__":
    cli.main(run, parser())
