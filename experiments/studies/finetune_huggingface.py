"""Fine-tunes a model by transformers' own loop, to compare with ours.

    other/bin/python -m experiments.studies.finetune_huggingface \\
        --model=DIR --train=train.tsv --valid=dev.tsv \\
        --fields=sentence --label=label --seed=0

It is the counterpart of experiments/finetune.py with the keys of docs/use.md: AdamW,
a linear schedule, gradients clipped at 1, dropout of the model. Files are
TSV with a header, JSON lines, or CoNLL (words and, last, their tags). A label that is a
number with a fraction is regressed. Prints one JSON object: the metrics of the
validation file and the seconds of training. It needs torch, transformers, accelerate,
scipy and, for tags, seqeval, in an environment of their own, and nothing of this
repository.
"""

import argparse
import csv
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import transformers as hf

IGNORED_LABEL = -100

Row = tuple[list[str], Any]
"""Texts (or words) and a label (or tags)."""


def read_rows(path: str, fields: list[str], label: str) -> list[Row]:
    file = Path(path)
    if file.suffix == ".conll":
        sentences = file.read_text("utf-8").split("\n\n")
        words = [[line.split() for line in s.splitlines() if line] for s in sentences]
        return [([w[0] for w in s], [w[-1] for w in s]) for s in words if s]
    with file.open(encoding="utf-8", newline="") as lines:
        if file.suffix == ".jsonl":
            rows = list(map(json.loads, lines))
        else:
            rows = list(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))
    return [([row[field] for field in fields], row[label]) for row in rows]


def encode_texts(rows: list[Row], tokenizer, length: int, ids: dict | None) -> list:
    """Inputs with labels: numbers where there are no ids."""
    encoded = []
    for texts, label in rows:
        inputs = dict(tokenizer(*texts, truncation=True, max_length=length))
        inputs["labels"] = float(label) if ids is None else ids[str(label)]
        encoded.append(inputs)
    return encoded


def encode_tags(rows: list[Row], tokenizer, length: int, ids: dict) -> list:
    """The first token of a word has its tag."""
    options = {"is_split_into_words": True, "truncation": True, "max_length": length}
    encoded = []
    for words, tags in rows:
        inputs = tokenizer(words, **options)
        labels, last = [], None
        for word in inputs.word_ids():
            first = word is not None and word != last
            labels.append(ids.get(tags[word], IGNORED_LABEL) if first else -100)
            last = word
        encoded.append(dict(inputs) | {"labels": labels})
    return encoded


def measure(found: Any, names: list[str], kind: str) -> dict[str, float]:
    predictions, labels = found.predictions, found.label_ids
    if kind == "regression":
        from scipy import stats

        values = predictions[:, 0]
        return {
            "pearson": stats.pearsonr(values, labels)[0],
            "spearman": stats.spearmanr(values, labels)[0],
        }
    if kind == "tags":
        from seqeval.metrics import f1_score

        chosen = predictions.argmax(-1)
        kept = labels != IGNORED_LABEL
        pairs = [
            ([names[n] for n in row[k]], [names[n] for n in own[k]])
            for row, own, k in zip(labels, chosen, kept, strict=True)
        ]
        golds, found = zip(*pairs, strict=True)
        return {"f1": f1_score(list(golds), list(found))}
    return {"accuracy": (predictions.argmax(-1) == labels).mean()}


def kind_of(rows: list[Row]) -> str:
    label = rows[0][1]
    if isinstance(label, list):
        return "tags"
    return "regression" if "." in str(label) else "classes"


def run(args: argparse.Namespace) -> None:
    tokenizer = hf.AutoTokenizer.from_pretrained(args.model)
    fields = args.fields.split(",")
    train, valid = (read_rows(f, fields, args.label) for f in (args.train, args.valid))
    kind, names = kind_of(train), []
    if kind == "tags":
        names = sorted({tag for _, tags in train for tag in tags})
    elif kind == "classes":
        names = sorted({str(label) for _, label in train})
    ids = {name: n for n, name in enumerate(names)}
    encode = encode_tags if kind == "tags" else encode_texts
    of_text = None if kind == "regression" else ids
    data = [encode(rows, tokenizer, args.length, of_text) for rows in (train, valid)]
    hf.set_seed(args.seed)
    if kind == "tags":
        loaded, collate = (
            hf.AutoModelForTokenClassification,
            hf.DataCollatorForTokenClassification(tokenizer),
        )
    else:
        loaded, collate = (
            hf.AutoModelForSequenceClassification,
            hf.DataCollatorWithPadding(tokenizer),
        )
    options = {"num_labels": max(1, len(names))}
    if kind == "regression":
        options["problem_type"] = "regression"
    model = loaded.from_pretrained(args.model, **options)
    steps = args.epochs * -(-len(train) // args.batch)
    trainer = hf.Trainer(
        model=model,
        args=hf.TrainingArguments(
            output_dir=args.to,
            num_train_epochs=args.epochs,
            per_device_train_batch_size=args.batch,
            per_device_eval_batch_size=64,
            learning_rate=args.learning_rate,
            weight_decay=0.01,
            adam_epsilon=1e-6,
            lr_scheduler_type="linear",
            warmup_steps=round(0.1 * steps),
            max_grad_norm=1.0,
            seed=args.seed,
            save_strategy="no",
            report_to=[],
            use_cpu=True,
        ),
        train_dataset=data[0],
        eval_dataset=data[1],
        data_collator=collate,
        compute_metrics=lambda found: measure(found, names, kind),
    )
    began = time.perf_counter(), time.process_time()
    trainer.train()
    seconds = time.perf_counter() - began[0], time.process_time() - began[1]
    metrics = {k: float(np.asarray(v)) for k, v in trainer.evaluate().items()}
    facts = {"seed": args.seed, "steps": steps, "seconds": seconds[0]}
    print(json.dumps(facts | {"cpu_seconds": seconds[1]} | metrics))


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("model", "train", "valid"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--fields", default="text")
    parser.add_argument("--label", default="label")
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--learning_rate", type=float, default=1e-4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--to", default="runs/transformers", help="of its own files")
    return parser


if __name__ == "__main__":
    run(parser().parse_args())
