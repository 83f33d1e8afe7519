"""augment: which words are replaced, by what, and what a row keeps."""

import io
import json

import jax.numpy as jnp
import numpy as np
import pytest

from launch.cli import DONE, MISTAKE, main
from launch.commands.augment import parser, run
from research import networks
from research.data.read.formats import FileOptions, make_format
from research.data.read.formats.parsing.whole_rows import read_whole_rows
from research.evaluation.word_vectors import WordVectors
from research.use.inference.augmentation import WORD, Augmenter, Word, variants
from research.use.inference.open_run import open_run
from tests.testing.huggingface_goldens import copy_with_vocabulary

WORDS = ["stones", "rocks", "pebbles", "far off", "rivers"]
VECTORS = np.float32([[1, 0.1], [1, 0], [0.9, 0.2], [1, 0.1], [0, 1]])
TEXT = "The old Stones, a2 river"
"""One word of one piece before a stop word, one of two, one that is none, one more."""


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return copy_with_vocabulary("bert", tmp_path_factory.mktemp("augment"))


@pytest.fixture(scope="module")
def augmenter(source):
    vectors = WordVectors(WORDS, VECTORS)
    return Augmenter(open_run(f"hf:{source}"), vectors, candidates=99)


@pytest.fixture
def folder(tmp_path):
    lines = [
        f"{word} {' '.join(map(str, row))}\n"
        for word, row in zip(WORDS, VECTORS, strict=True)
    ]
    (tmp_path / "glove.txt").write_text("".join(lines))
    rows = [("id", "a", "label", "b"), ("1", TEXT, "x", "reads stones"), ("2",) * 4]
    text = "".join("\t".join(row) + "\n" for row in rows)
    (tmp_path / "train.tsv").write_text(text)
    return tmp_path


def augment(folder, source, *flags):
    own = [f"--workdir=hf:{source}", f"--vectors={folder}/glove.txt"]
    own += [f"--texts={folder}/train.tsv", f"--to={folder}/new.tsv", "--fields=a,b"]
    with pytest.raises(SystemExit) as stop:
        main(run, parser(), [*own, *flags])
    return stop.value.code


def best_tokens(model, row, first):
    """All tokens, best first, for the mask of a row of ids, by the network alone."""
    token = jnp.array([row], jnp.int32)
    position = jnp.arange(len(row))[None]
    group = {"token": token, "position": position, "segment": 0 * token + 1}
    group |= dict.fromkeys(("rank", "reach"), 0 * token)
    group["token_type"] = (position >= first).astype(jnp.int32)

    def logits(net):
        readout = net.readout(net.states(group))
        return readout.feature @ readout.table.T + readout.bias[None, None]

    found = networks.apply(model.run.network, model.run.params, logits)
    vocab = model.run.vocabulary.vocab
    logits_V = found[0, row.index(vocab.mask_id), : vocab.size]
    return np.argsort(-logits_V, kind="stable").tolist()


def test_words_have_candidates_of_the_model_or_of_vectors(augmenter, source):
    (words,), counts = augmenter.words([TEXT])
    spelled = [TEXT[word.begin : word.end] for word in words]
    assert spelled == ["old", "Stones", "river"]  # no stop word, no a2
    assert WORD.findall("हिन्दी e\u0301t_2") == ["हिन्दी", "e\u0301t", "2"]
    assert words[1].candidates == ["Rocks", "Pebbles", "Rivers"]  # no word with a space
    assert counts == (2, 1, 0)
    model = open_run(f"hf:{source}")
    vocabulary = model.run.vocabulary
    vocab, (whole, *_) = vocabulary.vocab, vocabulary.encode(TEXT)
    for word, at in ((words[0], 1), (words[2], len(whole) - 1)):
        masked = whole.tolist()
        masked[at] = vocab.mask_id
        first = [vocab.bos_id, *masked, vocab.eos_id]
        best = best_tokens(model, [*first, *whole, vocab.eos_id], len(first))
        texts = [
            vocabulary.piece_text(i) for i in best if not vocab.is_special[i] and i != 1
        ]
        expected = [text.strip() for text in texts if text.startswith(" ")]
        assert word.candidates == expected and len(expected) == 7  # not ##s


def test_a_pass_replaces_words_where_they_stand():
    words = [Word(0, 3, ["old", "new"]), Word(5, 9, ["rock"])]
    draw = {"passes": 50, "seed": (0, 1, 0)}
    found = variants("The, rock!", words, probability=0.5, **draw)
    assert {*found} == {"old, rock!", "new, rock!"}  # one each, without the text
    assert found == variants("The, rock!", words, probability=0.5, **draw)
    assert variants("The, rock!", words, probability=0.0, **draw) == []
    draw["passes"] = 2000
    many = [Word(n, n + 1, ["x"]) for n in range(40)]
    texts = variants("a" * 40, many, probability=0.25, **draw)
    rate = np.mean([text.count("x") / 40 for text in texts])
    assert abs(rate - 0.25) < 5 * (0.25 * 0.75 / 40 / 2000) ** 0.5


def test_rows_keep_their_other_columns(source, folder, capsys):
    """A text changes at a time; the same seed gives the same file, another does not."""
    texts = []
    for seed in (0, 0, 1):
        flags = ["--probability=0.7", "--candidates=10", f"--seed={seed}"]
        assert augment(folder, source, *flags) == DONE
        texts.append((folder / "new.tsv").read_text())
        (folder / "new.tsv").unlink()
    assert texts[0] == texts[1] != texts[2]
    header, first, *rest = (line.split("\t") for line in texts[0].splitlines())
    assert header == ["id", "a", "label", "b"]
    assert first == ["1", TEXT, "x", "reads stones"] and rest[-1] == ["2"] * 4
    own = rest[:-1]
    assert len({*map(tuple, own)}) == len(own) > 5 and first not in own
    for row in own:
        assert row[0] == "1" and row[2] == "x"
        assert (row[1] == TEXT) != (row[3] == "reads stones")
        assert row[1].startswith("The ") and ", a2 " in row[1]
    options = FileOptions("tsv", ("a", "b"), "label")
    parsed = [*make_format(options).parse(io.BytesIO(texts[0].encode()), options)]
    assert [each.label for each in parsed] == ["x"] * (len(own) + 1) + ["2"]
    assert f"{len(own) + 2} rows of 2" in capsys.readouterr().err


def test_a_model_without_a_readout_is_refused(folder, capsys):
    source = copy_with_vocabulary("bert-tags", folder)
    assert augment(folder, source) == MISTAKE
    error = capsys.readouterr().err
    assert "does not predict masked tokens" in error and error.count("\n") == 1
    assert not (folder / "new.tsv").exists()


def test_rows_of_files(tmp_path):
    rows = [{"text": "a", "label": 1}, {"n": [2], "text": "\ud800"}]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    found = read_whole_rows(tmp_path / "a.jsonl", ())
    rows[1]["text"] = "\ufffd"
    assert (found.rows, found.fields, found.header) == (rows, ["text"], "")
    assert found.line_of(rows[1]) == '{"n": [2], "text": "\ufffd"}\n'
    (tmp_path / "a.tsv").write_text("a\tb\nc\td\n")
    found = read_whole_rows(tmp_path / "a.tsv", ("-1",))
    assert (found.rows, found.fields) == ([["a", "b"], ["c", "d"]], [-1])
    assert found.header == ""


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--probability=1.5"], "a number from 0 to 1, not 1.5"),
        (["--vectors=/none.txt"], "/none.txt cannot be read"),
        (["--vectors=@/count.txt"], "announces 5 vectors, but it has 1"),
        (["--texts=/none.tsv"], "/none.tsv: cannot be read"),
        (["--texts=@/bad.jsonl", "--to=@/n.jsonl"], "bad.jsonl:1: 'a' must be text"),
        (["--to=@/train.tsv"], "train.tsv exists; give a new file"),
        (["--to=@/new.jsonl"], "does not end in .tsv, as --texts does"),
        (["--fields=a,c"], "train.tsv:1: unknown column 'c'"),
        (["--fields=0,4"], "no column 4: its 4 columns are 0 to 3"),
        (["--texts=@/glove.txt", "--to=@/n.txt"], "does not end in .jsonl, .tsv"),
        (["--fields="], "name those of text by --fields"),
        (["--stop_words=/none"], "/none: cannot be read"),
        (["--workdir=/none"], "/none is not a run"),
    ],
)
def test_a_mistake_is_one_line(source, folder, capsys, flags, says):
    (folder / "count.txt").write_text("5 2\na 1 2\n")
    (folder / "bad.jsonl").write_text('{"a": 1, "b": "c"}\n')
    before = sorted(folder.iterdir())
    flags = [flag.replace("@", str(folder)) for flag in flags]
    assert augment(folder, source, *flags) == MISTAKE
    error = capsys.readouterr().err
    assert says in error and error.count("\n") == 1
    assert sorted(folder.iterdir()) == before
