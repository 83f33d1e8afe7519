"""Files of tasks: what is read of each format, and one line for what is wrong."""

import datetime
import gzip
import json
import math

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from research.contract.errors import UserError
from research.data.documents import LABEL_SEPARATOR
from research.data.read import files, tfds_corpus
from research.data.read.corpus import split_of
from research.data.read.formats import FileOptions
from research.data.read.formats.parsing import values
from tests.testing import fake_tfds


def read(path, *fmt, split="train"):
    """The documents of a file, all of which are of one split."""
    return list(
        files.load_file_corpus(str(path), None, FileOptions(*fmt)).documents(split)
    )


def parts(document):
    """The parts of a document, without the separators between them."""
    ends = [*(start - 1 for start in document.starts), len(document.text)]
    starts = (0, *document.starts)
    return [document.text[a:b] for a, b in zip(starts, ends, strict=True)]


def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


PAIRS = ("auto", ("one", "two"), "gold")


@pytest.mark.parametrize(
    ("name", "content", "fmt"),
    [
        ("a.tsv", 'one\ttwo\tgold\nx "y\tz\t1\n\nv\tw"\t0\n', PAIRS),
        ("a.tsv", '\ufeffgold\tone\ttwo\r\n1\tx "y\tz\r\n0\tv\tw"\r\n', PAIRS),
        ("a.tsv", 'q\tx "y\tz\t1\nq\tv\tw"\t0\n', ("auto", ("1", "2"), "-1")),
        ("a.csv", 'one,two,gold\n"x ""y",z,1\nv,"w""",0\n', PAIRS),
        ("a.txt", 'x "y,z,1\nv,"w""",0\n', ("csv", ("0", "1"), "2")),
        (
            "a.jsonl",
            '{"one": "x \\"y", "two": "z", "gold": 1}\n\n'
            '{"one": "v", "two": "w\\"", "gold": "0"}\n',
            PAIRS,
        ),
        (
            "a.jsonl",
            '{"t": ["x \\"y", "z"], "g": 1}\n{"t": ["v", "w\\""], "g": 0}\n',
            ("auto", ("t",), "g"),
        ),
    ],
)
def test_pairs_are_read_from_every_format(tmp_path, name, content, fmt):
    if fmt[0] == "csv":
        content = content.replace('x "y', '"x ""y"')
    for end, pack in ((".gz", gzip.compress), (".zst", pyarrow_zstd), ("", bytes)):
        path = write(tmp_path / (name + end), pack(content.encode()))
        found = read(path, *fmt)
        assert [parts(each) for each in found] == [['x "y', "z"], ["v", 'w"']]
        assert [each.label for each in found] == ["1", "0"]
        line = int(found[-1].id.rpartition(":")[2])
        assert found[-1].id == f"{path.name}:{line}"
        assert "v" in content.splitlines()[line - 1]


def pyarrow_zstd(data):
    return pyarrow.compress(data, codec="zstd", asbytes=True)


def test_parquet_has_the_same_pairs(tmp_path):
    rows = [{"one": "a b", "two": "c", "gold": 3}, {"one": "d", "two": "e", "gold": 0}]
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "a.parquet")
    found = read(tmp_path / "a.parquet", *PAIRS)
    assert [parts(each) for each in found] == [["a b", "c"], ["d", "e"]]
    assert [each.label for each in found] == ["3", "0"]


def test_parquet_with_two_columns_of_a_name_gives_one_line(tmp_path):
    columns = [pyarrow.array([text]) for text in ("a", "b", "c")]
    table = pyarrow.table(columns, names=["one", "two", "one"])
    parquet.write_table(table, tmp_path / "a.parquet")
    assert read(tmp_path / "a.parquet", "auto", ("two",))
    with pytest.raises(UserError, match="several columns are named 'one'"):
        read(tmp_path / "a.parquet", "auto", ("one",))


def test_a_parquet_column_that_is_not_utf8_gives_one_line(tmp_path):
    file = tmp_path / "a.parquet"
    column = pyarrow.array([b"one", b"\x8btwo"]).view(pyarrow.utf8())
    parquet.write_table(pyarrow.table({"text": column}), file)
    with pytest.raises(UserError, match=r"a\.parquet:1: a damaged column \(.*0x8b"):
        read(file, "auto", ("text",))


TYPED, TEXTS = ("parquet", "tfds"), ("jsonl", "parquet", "tfds")
VALUES = [
    (True, "True", TEXTS),
    (1, "1", TEXTS),
    (2.5, "2.5", TEXTS),
    (np.float32(3.8), "3.8", ("tfds",)),
    (math.nan, None, TEXTS),
    (None, None, TEXTS),
    (" ", None, TEXTS),
    (b"y ", "y", TYPED),
    (np.array([b"y", b"x"]), f"x{LABEL_SEPARATOR}y", ("tfds",)),
    (["b", None, "a"], f"a{LABEL_SEPARATOR}b", TEXTS),
    (["b", None, 1], f"1{LABEL_SEPARATOR}b", ("jsonl",)),
    (datetime.date(2020, 1, 2), "2020-01-02", ("parquet",)),
    ("\ud800", "\ufffd", ("jsonl",)),
]
"""Value, its label, and the formats that have such."""


@pytest.mark.parametrize(("value", "label", "formats"), VALUES)
def test_a_value_is_the_same_label_in_every_format(tmp_path, value, label, formats):
    row, found = {"one": "a", "two": "b", "gold": value}, []
    if "parquet" in formats:
        table = pyarrow.Table.from_pylist([row])
        parquet.write_table(table, tmp_path / "a.parquet")
        found += read(tmp_path / "a.parquet", *PAIRS)
    if "jsonl" in formats:
        found += read(write(tmp_path / "a.jsonl", json.dumps(row)), *PAIRS)
        row = {"text": "a", "label": value}
        found += read(write(tmp_path / "b.jsonl", json.dumps(row)))
    if "tfds" in formats:
        features = {"text": None, "gold": None}
        make = fake_tfds.make_builder
        row = {"text": b"a", "gold": value}
        builder = make(["train"], lambda split, n: row, **features)
        fmt = FileOptions("auto", ("text",), "gold")
        made = tfds_corpus.corpus_of_builder("tfds:made", builder, None, fmt)
        found += made.documents("train")
    assert found and {each.label for each in found} == {label}


@pytest.mark.parametrize("value", [{"x": 1}, [[1]], math.inf, b"\xff"])
def test_a_value_that_is_no_label_is_refused(value):
    with pytest.raises(ValueError, match=r"is not a label|not UTF-8"):
        values.label_of(value)


def test_a_missing_text_is_a_blank_field(tmp_path, capsys):
    rows = [{"one": text, "two": "b", "gold": 1} for text in (None, math.nan, b"a")]
    table = pyarrow.Table.from_pylist([rows[0], rows[2]])
    parquet.write_table(table, tmp_path / "a.parquet")
    assert [parts(each) for each in read(tmp_path / "a.parquet", *PAIRS)] == [
        ["a", "b"]
    ]
    path = write(tmp_path / "a.jsonl", "\n".join(map(json.dumps, rows[:2])))
    assert read(path, *PAIRS) == []
    error = capsys.readouterr().err
    assert "a.parquet: 1 row, number 1: left out, since a field of" in error
    assert "a.jsonl: 2 rows, the first of which is number 1: left out, since" in error


def test_csv_has_long_fields_and_carriage_returns(tmp_path):
    long = "a" * 200_000
    lines = ["one,two,gold", f"{long},b,1", '"c\rd",e,0']
    for end in ("\n", "\r\n", "\r"):
        found = read(write(tmp_path / "a.csv", end.join(lines)), *PAIRS)
        assert [parts(each) for each in found] == [[long, "b"], ["c\rd", "e"]]
        assert [each.label for each in found] == ["1", "0"]


@pytest.mark.parametrize(
    ("labels", "is_told"),
    [
        ("gold x y x y", True),
        ("x y x y", False),
        ("gold x y z", False),
        ("5 1 1", False),
    ],
)
def test_a_header_that_is_read_as_a_row_is_told(tmp_path, capsys, labels, is_told):
    for name, mark in (("a.tsv", "\t"), ("a.csv", ",")):
        lines = (f"text {n}{mark}{label}\n" for n, label in enumerate(labels.split()))
        path = write(tmp_path / name, "".join(lines))
        assert len(read(path, "auto", ("0",), "1")) == len(labels.split())
        line = f"{name}: 1 row, number 1: label 'gold' is on no other row"
        assert (line in capsys.readouterr().err) == is_told


def test_rows_with_a_blank_field_are_counted(tmp_path, capsys):
    path = write(tmp_path / "a.tsv", "one\ttwo\tgold\na\tb\t1\n \tb\t1\na\t\t0\n")
    assert len(read(path, *PAIRS)) == 1
    assert (
        "a.tsv: 2 rows, the first of which is number 3: left out, since a field of"
        in capsys.readouterr().err
    )


def test_files_of_a_test_split_may_lack_the_label(tmp_path, capsys):
    path = write(tmp_path / "a.tsv", "index\tone\ttwo\n0\ta\tb\n1\tc\td\n")
    found = read(path, *PAIRS, True)
    assert [(each.label, *parts(each)) for each in found] == [
        (None, "a", "b"),
        (None, "c", "d"),
    ]
    error = capsys.readouterr().err
    assert "a.tsv: 2 rows, the first of which is number 2: no column 'gold'" in error


def test_labels_may_be_several_or_missing(tmp_path):
    rows = [{"t": "a", "g": ["y", "x"]}, {"t": "b", "g": None}, {"t": "c", "g": ""}]
    path = write(tmp_path / "a.jsonl", "\n".join(map(json.dumps, rows)))
    labels = [each.label for each in read(path, "auto", ("t",), "g")]
    assert labels == [f"x{LABEL_SEPARATOR}y", None, None]


CONLL = "-DOCSTART- -X- O O\n\nEU NNP B-NP B-ORG\nrejects VBZ B-VP O\n\n\n. . O O\n"
CONLLU = (
    "# newdoc\n1-2\tdon't\t_\t_\t_\t_\t_\t_\t_\t_\n"
    "1\tdo\tdo\tAUX\tVB\t_\t3\taux\t_\t_\n2\tn't\tnot\tPART\tRB\t_\t3\tadvmod\t_\t_\n"
    "2.1\tx\t_\tX\t_\t_\t_\t_\t_\t_\n\n1\tGo\tgo\tVERB\tVB\t_\t0\troot\t_\t_\n"
)


@pytest.mark.parametrize(
    ("name", "content", "fmt", "words", "tags"),
    [
        ("a.conll", CONLL, (), [["EU", "rejects"], ["."]], [("B-ORG", "O"), ("O",)]),
        (
            "a.txt",
            CONLL,
            ("conll", ("0",), "1"),
            [["EU", "rejects"], ["."]],
            [("NNP", "VBZ"), (".",)],
        ),
        (  # flairNLP/flair #3006; # is a word, too (mead-ml/mead-baseline #408)
            "a.conll",
            "# id 7\tof=en\nEU _ _ B-ORG\n\n\n# id 8\tof=en\n# _ _ O\nid _ _ O\n",
            (),
            [["EU"], ["#", "id"]],
            [("B-ORG",), ("O", "O")],
        ),
        (
            "a.conll",
            "#begin document (bc); part 0\nb 0 EU O\n\n#end document\n",
            ("auto", ("2",), ""),
            [["EU"]],
            [("O",)],
        ),
        (
            "a.conllu",
            CONLLU,
            (),
            [["do", "n't"], ["Go"]],
            [("AUX", "PART"), ("VERB",)],
        ),
        (
            "a.conllu",
            CONLLU,
            ("auto", (), "deprel"),
            [["do", "n't"], ["Go"]],
            [("aux", "advmod"), ("root",)],
        ),
    ],
)
def test_words_have_tags(tmp_path, name, content, fmt, words, tags):
    found = read(write(tmp_path / name, content), *fmt)
    assert [parts(each) for each in found] == words
    assert [each.arrays["tags"] for each in found] == tags


@pytest.mark.parametrize("space", " \u00a0\u3000\u2009\u202f\u0085\u2028\x0b\x1c")
@pytest.mark.parametrize("name", ["a.conll", "spaces.conll", "a.conllu"])
def test_a_word_may_have_any_white_space_that_separates_no_columns(
    tmp_path, name, space
):
    """A number with a no-break space, and a word of that space alone."""
    words = [f"10{space}000", space]
    columns = {"a.conll": "{}\tX\tO", "spaces.conll": "{} X O"}.get(
        name, "1\t{}" + "\t_" * 8
    )
    if space == " ":  # a blank word, or a space that separates columns
        if name == "spaces.conll":
            return
        words = words[:1]
    lines = "".join(f"{columns.format(word)}\n" for word in words)
    (found,) = read(write(tmp_path / name, lines))
    assert parts(found) == words


def squad(*questions, context="Überall 1920s.[8] ends"):
    paragraph = {"context": context, "qas": list(questions)}
    return json.dumps({"data": [{"paragraphs": [paragraph]}]})


def question(name, *answers, **more):
    answers = [{"text": text, "answer_start": start} for text, start in answers]
    return {"id": name, "question": "When?", "answers": answers} | more


def test_answers_are_characters_of_the_context(tmp_path, capsys):
    content = squad(
        question("a", ("1920s", 8), ("1920s.", 8)),
        question("b", ("1920s", 9)),
        question("c", is_impossible=True),
        question("d"),
        question("e", ("", 0)),
        question("f", ("", 0), is_impossible=False),
    )
    found = read(write(tmp_path / "a.json", content))
    assert [each.id for each in found] == ["a", "b", "c", "d", "e", "f"]
    labels = [each.label for each in found]
    assert labels == ["answerable", None, "unanswerable", None, None, None]
    assert {each.golds for each in found[3:]} == {()}  # what they score is unknown
    begin, end = found[0].answer
    assert found[0].text[begin:end] == "1920s"
    assert found[0].golds == ("1920s", "1920s.")
    assert parts(found[0]) == ["When?", "Überall 1920s.[8] ends"]
    assert all(each.answer is None for each in found[1:])
    error = capsys.readouterr().err
    assert "a.json: 1 row, number 2: not trained on" in error
    assert "question b" in error
    assert "a.json: 3 rows, the first of which is number 4: no answer" in error


def test_named_files_are_all_of_their_split_and_others_by_hash(tmp_path):
    texts = [f"text {n}" for n in range(300)]
    path = write(tmp_path / "a.tsv", "".join(f"{text}\tx\n" for text in texts))
    fmt = FileOptions("auto", ("0",), "1")
    assert [each.text for each in read(path, *fmt, split="test")] == texts
    hashed = files.load_file_corpus(str(path), 0.2, fmt)
    for split in ("train", "valid", "test"):
        found = [each.text for each in hashed.documents(split)]
        own = [text for text in texts if split_of(text, valid=0.2, test=0.2) == split]
        assert found == own
    keys = {hashed.fingerprint()}
    for held_out, changed in ((None, fmt), (0.2, fmt._replace(label=""))):
        keys.add(files.load_file_corpus(str(path), held_out, changed).fingerprint())
    assert len(keys) == 3


TREC = "DESC:manner How did it go ?\n\nHUM:ind Who was Caf\xe9 ?\r\nDESC:def x\n"


@pytest.mark.parametrize(
    ("rule", "labels"),
    [
        ("prefix", ["DESC:manner", "HUM:ind", "DESC:def"]),
        ("coarse_prefix", ["DESC", "HUM", "DESC"]),
    ],
)
def test_a_label_precedes_the_text_of_a_line(tmp_path, rule, labels):
    path = write(tmp_path / "train.label", TREC.encode("latin-1"))
    found = read(path, "lines", (), rule, False, {}, "latin-1")
    assert [each.label for each in found] == labels
    assert found[1].text == "Who was Caf\xe9 ?" and found[1].id == "train.label:3"


NAMES = {
    "file": (["quote.tok.5000", "plot.tok.5000"], ["plot", "quote"]),
    "suffix": (["rt.pos", "rt.neg.gz"], ["neg", "pos"]),
    "folder": (["pos/a.txt", "neg/a.txt"], ["neg", "pos"]),
}


@pytest.mark.parametrize("rule", NAMES)
def test_a_label_is_a_part_of_the_path_of_a_file(tmp_path, rule):
    names, labels = NAMES[rule]
    for name in names:
        content = f"{name}\n".encode()
        (tmp_path / name).parent.mkdir(exist_ok=True)
        write(
            tmp_path / name, gzip.compress(content) if name[-3:] == ".gz" else content
        )
    fmt = ("auto" if rule == "folder" else "lines", (), rule)
    assert [each.label for each in read(tmp_path, *fmt)] == labels
    key = files.load_file_corpus(str(tmp_path), None, FileOptions(*fmt)).fingerprint()
    if rule == "folder":
        (tmp_path / "pos").rename(tmp_path / "other")
        moved = files.load_file_corpus(str(tmp_path), None, FileOptions(*fmt))
        assert moved.fingerprint() != key
        write(tmp_path / "urls.txt", "x\n")
        with pytest.raises(
            UserError, match=r"urls\.txt is not in a folder of .* label"
        ):
            read(tmp_path, *fmt)
        glob = f"{tmp_path}/[no]*/*.txt"
        assert [each.label for each in read(glob, *fmt)] == ["neg", "other"]


@pytest.mark.parametrize(
    ("name", "encoding"),
    [
        *(("a.tsv", encoding) for encoding in ("latin-1", "cp1252", "UTF8")),
        *((f"a.{end}", "utf-16") for end in ("tsv", "csv", "jsonl", "conll", "txt.gz")),
    ],
)
def test_a_file_is_read_in_its_encoding(tmp_path, encoding, name):
    """As the same file in UTF-8 is, also across the chunks that are decoded."""
    rows = [f"caf\xe9{n} \xab\xbb" for n in range(3000)]
    lines = {
        "a.tsv": lambda row: f"{row}\tx\n",
        "a.csv": lambda row: f"{row},x\n",
        "a.jsonl": lambda row: f'{{"0": "{row}", "1": "x"}}\n',
        "a.conll": lambda row: "".join(f"{w} x\n" for w in row.split()) + "\n",
        "a.txt.gz": lambda row: f"{row}\n\n",
    }
    content = "".join(map(lines[name], rows))
    columns = () if name == "a.txt.gz" else (("0",), "1")
    pack = gzip.compress if name.endswith(".gz") else bytes
    found = []
    for each in ("utf-8", encoding):
        path = write(tmp_path / name, pack(content.encode(each)))
        options = FileOptions("auto", *columns, encoding=each)
        corpus = files.load_file_corpus(str(path), None, options)
        found.append([d._replace(amount_read=0) for d in corpus.documents("train")])
    assert found[0] == found[1] and len(found[0]) == len(rows)


def test_a_wrong_byte_says_its_line_in_any_chunk(tmp_path):
    content = "caf\xe9 ab\n".encode("cp1252") * 3000 + b"\x81\n"
    path = write(tmp_path / "a.txt", content)
    options = FileOptions(encoding="cp1252")
    corpus = files.load_file_corpus(str(path), None, options)
    with pytest.raises(UserError, match=r"a\.txt:3001: not cp1252 .*; data.encoding"):
        list(corpus.documents("train"))


WRONG = [
    ("a.tsv", "one\ttwo\tgold\na\tb\n", PAIRS, "a.tsv:2: has 2 columns, not 3"),
    ("a.tsv", "one\tto\tgold\na\tb\t1\n", PAIRS, "a.tsv:1: unknown column"),
    (
        "a.tsv",
        "a\tb\t1\n",
        ("auto", ("0", "7"), ""),
        "a.tsv:1: data.fields: no column 7: its 3",
    ),
    (
        "a.tsv",
        "a\tb\t1\n",
        ("auto", ("0",), "-4"),
        "a.tsv:1: data.label: no column -4: its 3",
    ),
    ("a.csv", 'one,two,gold\n"a,b,1\nc,d,0\n', PAIRS, "a.csv:2: not CSV"),
    ("a.csv", "one,two,gold\na,b,c,1\n", PAIRS, "a.csv:2: has 4 columns"),
    ("a.csv", "a,b\n", (), "as in data.fields="),
    (
        "a.jsonl",
        '{"one": "a", "two": 3, "gold": 1}\n',
        PAIRS,
        "a.jsonl:1: 'two' of data.fields: 3 is not text",
    ),
    (
        "a.jsonl",
        '{"one": "a", "gold": 1}\n',
        PAIRS,
        "column of data.fields 'two'; known: gold, one",
    ),
    ("a.jsonl", "[1]\n", PAIRS, "a.jsonl:1: a line must be a JSON object"),
    (
        "a.jsonl",
        '{"text": "a"}\n',
        ("auto", (), "gold"),
        "unknown column of data.label",
    ),
    ("a.conll", "a O\nb\n", (), "a.conll:2: has 1 columns, not 2"),
    ("a.conll", "a\tO\n \tO\n", (), "a.conll:2: has 1 columns, not 2"),
    ("a.conll", "a\tb\tO\na\t\tO\n", ("auto", ("1",), ""), "a word or its tag is bl"),
    ("a.conll", "a O\n", ("auto", ("5",), ""), "a.conll:1: has 2 columns"),
    ("a.conll", "a O\n", ("auto", ("word",), ""), "must be numbers of CoNLL columns"),
    ("a.conllu", "1\ta\tb\n", (), "a.conllu:1: has 3 columns between tabs, not 10"),
    ("a.conllu", CONLLU, ("auto", (), "pos"), "column of CoNLL-U 'pos'"),
    (
        "a.jsonl",
        '{"one": "a", "two": "b", "one": "c", "gold": 1}\n',
        PAIRS,
        "a.jsonl:1: several keys are named 'one'",
    ),
    (
        "a.jsonl",
        '{"one": ["a", "b"], "two": ["c"], "gold": 1}\n',
        PAIRS,
        "a.jsonl:1: 'one' is a list, whose items are separate parts",
    ),
    (
        "a.json",
        squad({"id": "q", "question": "x", "is_impossible": "false"}),
        (),
        "a.json:1: question q: is_impossible must be true or false, not 'false'",
    ),
    (
        "a.json",
        squad(
            {
                "id": "q",
                "question": "x",
                "answers": [{"text": "b", "answer_start": True}],
            }
        ),
        (),
        "a.json:1: question q: answer_start must be a whole number, not True",
    ),
    ("a.json", "[" * 200_000, (), "a.json:1: not SQuAD's JSON"),
    ("a.json", '{"rows": []}', (), "a.json:1: not SQuAD's JSON"),
    ("a.json", '{"data": [', (), "a.json:1: not SQuAD's JSON"),
    ("a.json", squad({"id": "q", "question": "x"}, context=" "), (), "q: blank text"),
    ("a.parquet", "no", PAIRS, "a.parquet:1: not Parquet"),
    ("a.tsv.zst", "no", PAIRS, "a.tsv.zst: cannot be read"),
    ("a.dat", "a\tb\n", PAIRS, "a.dat has an unknown suffix"),
]


@pytest.mark.parametrize(("name", "content", "fmt", "message"), WRONG)
def test_a_wrong_file_gives_one_line(tmp_path, name, content, fmt, message):
    write(tmp_path / name, content)
    with pytest.raises(UserError) as error:
        read(tmp_path / name, *fmt)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", "one,two,gold\na,b,x\nc,d,\n"),
        ("a.tsv", "one\ttwo\tgold\na\tb\tx\nc\td\t \n"),
        (
            "a.jsonl",
            '{"one": "a", "two": "b", "gold": 1}\n{"one": "c", "two": "d", '
            '"gold": NaN}\n',
        ),
    ],
)
def test_rows_without_a_label_are_counted(tmp_path, capsys, name, content):
    first, second = read(write(tmp_path / name, content), *PAIRS)
    assert first.label and second.label is None
    assert "1 row, number " in (line := capsys.readouterr().err)
    assert line.endswith("no label in 'gold'\n") and line.count("\n") == 1
