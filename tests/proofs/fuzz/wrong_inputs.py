"""What a user may write in task files, configs and plans that has to be told."""

import datetime
import io
import json
from collections.abc import Callable
from typing import Any

ROWS = [("the old stone", "x"), ("a small river", "y"), ("by and by", "x")] * 4
COLUMNS = {"text": [text for text, _ in ROWS], "label": [label for _, label in ROWS]}
WORDS = [("the", "D"), ("old", "A"), ("stone", "N"), ("", ""), ("by", "P")]


def parquet(**columns: Any) -> bytes:
    """A Parquet file; the values of a column, or two columns in place of one."""
    import pyarrow
    from pyarrow import parquet as library

    pairs = []
    for name, values in columns.items():
        several = values if isinstance(values, tuple) else (values,)
        pairs += [(name, pyarrow.array(each)) for each in several]
    table = pyarrow.Table.from_arrays([a for _, a in pairs], [n for n, _ in pairs])
    file = io.BytesIO()
    library.write_table(table, file)
    return file.getvalue()


def squad(context: Any = "The old stone lies by a river.", **question: Any) -> bytes:
    """SQuAD's JSON with one question; what of it is other than it should be."""
    sound = {"id": "1", "question": "Where?", "is_impossible": False}
    sound["answers"] = [{"text": "river", "answer_start": 24}]
    paragraph = {"context": context, "qas": [sound | question]}
    return json.dumps({"data": [{"title": "t", "paragraphs": [paragraph]}]}).encode()


def _delimited(separator: str) -> bytes:
    rows = [("text", "label"), *ROWS]
    return "".join(f"{separator.join(row)}\n" for row in rows).encode()


def _conll(words: list[tuple[str, str]]) -> bytes:
    return "".join(f"{word} {tag}".strip() + "\n" for word, tag in words).encode()


def _conllu(words: list[tuple[str, str]]) -> bytes:
    lines = [
        "\t".join([f"{n}", word, "_", tag, *"______"]) if word else ""
        for n, (word, tag) in enumerate(words, 1)
    ]
    return "".join(f"{line}\n" for line in lines).encode()


FILES: dict[str, Callable[[], bytes]] = {
    "rows.jsonl": lambda: "".join(
        json.dumps({"text": text, "label": label}) + "\n" for text, label in ROWS
    ).encode(),
    "rows.csv": lambda: _delimited(","),
    "rows.tsv": lambda: _delimited("\t"),
    "rows.parquet": lambda: parquet(**COLUMNS),
    "words.conll": lambda: "".join(
        f"{w} {t}".strip() + "\n" for w, t in WORDS
    ).encode(),
    "words.conllu": lambda: _conllu(WORDS),
    "questions.json": squad,
    "texts.txt": lambda: b"the old [MASK]\na [MASK] and by\n",
    "vectors.txt": lambda: b"the 1 0\nold .5 1\nstones 1 1\nreads 0 -1\n",
    "prompts.txt": lambda: b"the old\na small river\n",
    "pairs.jsonl": lambda: b'{"sentence_good": "a stone", "sentence_bad": "stone a"}\n',
    "corpus.txt": lambda: b"The old stone. A small river.\n\nBy and by it reads.\n" * 6,
}
"""Name of a file -> its sound content."""

WRONG_LINES = {
    "rows.jsonl": (
        b'{"text": "the"}',
        b'{"label": "x"}',
        b'{"text": null, "label": "x"}',
        b'{"text": {"a": "the"}, "label": "x"}',
        b'{"text": 3, "label": "x"}',
        b'{"text": true, "label": "x"}',
        b'{"text": "the", "label": ["x", "y"]}',
        b'{"text": "the", "label": {"x": 1}}',
        b'{"text": "the", "label": 1e999}',
        b'{"text": "the", "label": NaN}',
        b'{"text": "the", "label": null}',
        b'{"text": "the", "label": "x"',
        b'{"text": "the", "label": "none of them"}',
        b'{"text": "a", "text": "b", "label": "x"}',
        b'{"text": "\xff", "label": "x"}',
        b"[1]",
        b"[" * 9999,
    ),
    "rows.csv": (
        b"the",
        b"the,x,y",
        b'"the,x',
        b'"a"b,x',
        b"\xff,x",
        b"the,",
        b",x",
        b"the,none of them",
        b"the\0,x\0",
    ),
    "rows.tsv": (b"the", b"the\tx\ty", b"\xff\tx", b"the\t", b"\tx", b"the\tnone"),
    "words.conll": (b"the", b"the a D", b"\xff D", b"the none"),
    "words.conllu": (
        b"1\tthe",
        b"1\t\xff\t_\tD\t_\t_\t_\t_\t_\t_",
        b"1\tthe\t_\tnone\t_\t_\t_\t_\t_\t_",
        b"1\t \t_\tD\t_\t_\t_\t_\t_\t_",
        b"1\tthe\t_\tD\t_\t_\t_\t_\t_\t_\t_",
    ),
    "texts.txt": (b"\xff [MASK]",),
    "prompts.txt": (b"\xff",),
    "pairs.jsonl": (
        b"{}",
        b'{"sentence_good": "a"}',
        b'{"sentence_good": "a", "sentence_bad": 3}',
        b'{"sentence_good": ["a", "b"], "sentence_bad": "b"}',
        b'{"sentence_good": "a", "sentence_bad": "\xff"}',
        b'{"sentence_good": "a"',
    ),
    "corpus.txt": (b"\xff",),
}
"""Name of a file -> lines, each of which is told."""

DAY = datetime.date(2020, 1, 1)
COUNT = len(ROWS)
WRONG_CONTENTS: dict[str, tuple[Callable[[], bytes], ...]] = {
    "rows.parquet": (
        lambda: parquet(text=COLUMNS["text"]),
        lambda: parquet(label=COLUMNS["label"]),
        lambda: parquet(text=[1] * COUNT, label=COLUMNS["label"]),
        lambda: parquet(text=[True] * COUNT, label=COLUMNS["label"]),
        lambda: parquet(text=[DAY] * COUNT, label=COLUMNS["label"]),
        lambda: parquet(text=[b"\xff"] * COUNT, label=COLUMNS["label"]),
        lambda: parquet(text=[{"a": "the"}] * COUNT, label=COLUMNS["label"]),
        lambda: parquet(text=[[["the"]]] * COUNT, label=COLUMNS["label"]),
        lambda: parquet(text=[None] * COUNT, label=COLUMNS["label"]),
        lambda: parquet(text=COLUMNS["text"], label=[float("nan")] * COUNT),
        lambda: parquet(text=COLUMNS["text"], label=[float("inf")] * COUNT),
        lambda: parquet(text=COLUMNS["text"], label=[1.0, 2.0] * 6),
        lambda: parquet(text=COLUMNS["text"], label=[True, False] * 6),
        lambda: parquet(text=COLUMNS["text"], label=[DAY] * COUNT),
        lambda: parquet(text=COLUMNS["text"], label=[b"\xff"] * COUNT),
        lambda: parquet(text=COLUMNS["text"], label=[{"a": 1}] * COUNT),
        lambda: parquet(text=COLUMNS["text"], label=[None] * COUNT),
        lambda: parquet(text=(COLUMNS["text"],) * 2, label=COLUMNS["label"]),
        lambda: parquet(text=[], label=[]),
    ),
    "questions.json": (
        lambda: squad(is_impossible="false"),
        lambda: squad(is_impossible=2),
        lambda: squad(answers=[{"text": "river", "answer_start": True}]),
        lambda: squad(answers=[{"text": "river", "answer_start": "24"}]),
        lambda: squad(answers=[{"text": "river", "answer_start": 24.5}]),
        lambda: squad(answers=[{"text": "river", "answer_start": 3}]),
        lambda: squad(answers=[{"text": "river", "answer_start": -1}]),
        lambda: squad(answers=[{"text": 5, "answer_start": 24}]),
        lambda: squad(answers=[{"answer_start": 24}]),
        lambda: squad(answers={"text": ["river"], "answer_start": [24]}),
        lambda: squad(answers="river"),
        lambda: squad(answers=[]),
        lambda: squad(question=None),
        lambda: squad(question=["Where?"]),
        lambda: squad(question=" "),
        lambda: squad(context=None),
        lambda: squad(context=3),
        lambda: squad(context=["a", "b"]),
        lambda: b'{"data": {}}',
        lambda: b'{"data": [{"paragraphs": [{"context": "a"}]}]}',
        lambda: b'{"data": [{"paragraphs": null}]}',
    ),
    **{
        f"rows.{kind}": (
            lambda mark=mark: mark.join([b"text", b"text", b"label"]) + b"\n",
            lambda mark=mark: mark.join([b"words", b"label"]) + b"\na" + mark + b"x\n",
            lambda mark=mark: mark.join([b"text", b"label"]) + b"\n",
            lambda kind=kind: FILES[f"rows.{kind}"]().decode().encode("utf-16"),
        )
        for kind, mark in (("csv", b","), ("tsv", b"\t"))
    },
}
"""Name of a file -> other contents, each of which is told."""


def _crlf(content: bytes) -> bytes:
    return content.replace(b"\n", b"\r\n")


def _cr(content: bytes) -> bytes:
    return content.replace(b"\n", b"\r")


def _mark(content: bytes) -> bytes:
    return b"\xef\xbb\xbf" + content


def _blank_end(content: bytes) -> bytes:
    return content + b"\n"


SAME = {
    "rows.jsonl": (_crlf, _cr, _mark, _blank_end),
    "rows.csv": (_crlf, _cr, _mark, _blank_end),
    "rows.tsv": (_crlf, _cr, _mark, _blank_end),
    "words.conll": (_crlf, _mark, _blank_end),
    "words.conllu": (_crlf, _mark, _blank_end),
    "questions.json": (_crlf, _blank_end),
    "texts.txt": (_crlf, _cr, _mark),
    "corpus.txt": (_blank_end,),
}
"""Name of a file -> changes with which all is printed as without."""

WRONG_VALUES = {
    "num_hidden_layers": (10**9, True, -1, 0, "2", None, 1.5),
    "hidden_size": (0, -8, True, 33, 10**9, [32]),
    "num_attention_heads": (0, 3, -1, "2"),
    "type_vocab_size": (0, -1, True, "x"),
    "layer_norm_eps": (-1e-12, 1e999, "x", True),
    "hidden_dropout_prob": (2, -1, "x", True),
    "hidden_act": ("nope", 3, None, []),
    "vocab_size": (0, -1, 10**9, "x", True),
    "max_position_embeddings": (0, -1, "x", True),
    "intermediate_size": (0, -1, "x", True, 63),
    "model_type": ("nope", 3, None, []),
}
"""Key of a config of BERT -> values that are told."""


def wrong_tokenizers(sound: dict[str, Any]) -> list[dict[str, Any]]:
    """Contents of tokenizer.json that are told, from a sound one of BPE."""
    vocab = sound["model"]["vocab"]
    first, second, *_ = vocab
    models = [
        {"vocab": dict.fromkeys(vocab, 0)},
        {"vocab": vocab | {first: vocab[second]}},
        {"vocab": vocab | {first: 10**9}},
        {"vocab": vocab | {first: -1}},
        {"vocab": vocab | {first: "x"}},
        {"vocab": {}},
        {"vocab": []},
        {"merges": [["nowhere", "to be found"]]},
        {"type": "nope"},
    ]
    changed = [sound | {"model": sound["model"] | model} for model in models]
    return [*changed, sound | {"model": None}, sound | {"added_tokens": 3}]


EDITED_VALUES = {
    "model": {
        "norm_epsilon": 0.01,
        "heads": 1,
        "layers": 2,
        "feedforward": 32,
        "activation": "relu",
        "norm_placement": "pre",
        "tie_embeddings": False,
        "unknown_key": 1,
    },
    "objective": {"rate": 0.3, "unknown_key": 1},
    "train": {"batch": 8, "seed": 1},
    "optimizer": {"learning_rate": 0.1},
}
"""Section of a run's config.json -> key -> a value, most of which are legal: it is not
the run's."""

WRONG_TOML = (
    'train.init_from = "runs/other"',
    "model.layers = 9",
    "data.nope = 1",
    "data.train = 3",
    'data.train = "missing.tsv"',
    'train.steps = "x"',
    "train.steps = -1",
    "train.steps = nan",
    "train.steps = 1.5",
    "train = 3",
    "train.steps = 3\ntrain.steps = 4",
    "x =",
    "[one]",
)
"""Lines in the table of a task, each of which is told."""

SEQIO_MODULE = """
import seqio
import tensorflow as tf

def source(split, shuffle_files, seed=None):
    texts = tf.data.Dataset.from_tensor_slices({"targets": ["the stone"] * 9})
    return texts  # SOURCE

def fail(*_):
    raise KeyError("mine")  # HERE

def change(row):
    return row  # MAP

# MODULE
seqio.TaskRegistry.add(
    "their_task",
    source=seqio.FunctionDataSource(source, splits=["train", "validation"]),
    preprocessors=[
        lambda dataset: dataset.map(change),
        seqio.preprocessors.tokenize,
    ],
    output_features={
        "targets": seqio.Feature(seqio.ByteVocabulary(extra_ids=6), add_eos=False)
    },
)
"""
"""A module that registers a sound task."""

RAISES_AS_IT_RUNS = (
    'return {"targets": '
    'tf.reshape(tf.py_function(fail, [row["targets"]], tf.string), ())}'
)
WRONG_MODULES = {
    "a module that raises": ("# MODULE", "fail()", "KeyError: 'mine'"),
    "a module that exits": ("# MODULE", "raise SystemExit(3)  # HERE", "SystemExit: 3"),
    "a module without syntax": ("# MODULE", "def f(:  # HERE", "SyntaxError"),
    "a call of a library": (
        "# MODULE",
        "import json; json.loads('')  # HERE",
        "JSONDecodeError",
    ),
    "a source that raises": ("return texts  # SOURCE", "fail()", "KeyError: 'mine'"),
    "a map that raises": ("return row  # MAP", "fail()", "KeyError: 'mine'"),
    "a map that raises as it runs": ("return row", RAISES_AS_IT_RUNS, "KeyError: "),
}
"""What is wrong -> old text, new text, and a part of the error, which has the line."""

WRONG_TASKS = {
    "no examples": ("return texts", "return texts.filter(lambda row: False)"),
    "another name": ('"their_task"', '"other_task"'),
    "no such split": ('"validation"', '"dev"'),
    "another type": ('["the stone"] * 9', "[1.5] * 9"),
    "no such feature": ('"targets": ["the', '"words": ["the'),
    "no module of that name": ("import seqio", "import seqio, nowhere_to_be_found"),
    "other output": ('"targets": seqio.F', '"nothing": seqio.F'),
}
"""What is wrong -> old text and new text."""
