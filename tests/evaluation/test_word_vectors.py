"""Word vectors: neighbours, analogies by word2vec's protocol, similarities."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

from launch.commands import vectors as command
from research import objectives
from research.contract.errors import UserError
from research.data.tokenize.tokenizer_models import HuggingFaceModel
from research.data.tokenize.tokenizer_types import special_pieces
from research.data.tokenize.tokenizer_types.wordpiece import wordpiece_json
from research.data.tokenize.tokenizer_types.words import words_json
from research.data.tokenize.vocabulary import Vocabulary, find_special_tokens
from research.evaluation.word_vectors import Count, WordVectors, sums
from research.use.inference.language_model import LanguageModel
from tests.testing.model_options import model_options
from tests.testing.tiny_runs import save_untrained, tiny_config, write_corpus

WORDS = ["king", "man", "woman", "queen", "King", "apple"]
ROWS = np.float32([[2, 0, 1], [2, 0, 0], [2, 2, 0], [2, 2, 1], [0, 9, 9], [-1, 0, 0]])
VECTORS = WordVectors(WORDS, ROWS)


def test_neighbours_are_by_cosine_and_do_not_include_the_word():
    words = [word for word, _ in VECTORS.nearest("man", 2)]
    assert words == ["king", "woman"]
    assert VECTORS.nearest("man")[-1] == ("apple", pytest.approx(-1.0))
    assert WordVectors(WORDS, 0 * ROWS).nearest("man", 1)[0][1] == 0
    with pytest.raises(UserError, match=r"unknown word 'kong'.*king"):
        VECTORS.nearest("kong")


def test_a_word_of_unknown_ngrams_has_no_neighbours():
    def compose(word):
        return np.float32([2, 0, 0]) * (word == "mankind")

    made = dataclasses.replace(VECTORS, compose=compose)
    assert made.nearest("mankind", 1)[0][0] == "man"
    with pytest.raises(UserError, match=r"'qqqq' has no vector: .* no n-gram"):
        made.nearest("qqqq")
    with pytest.raises(UserError, match="unknown word 'apple'"):
        made.first(3).nearest("apple")


def test_the_limit_leaves_the_nearest_words_as_they_are(tmp_path, capsys):
    source = write_vectors(tmp_path)
    run(f"--from={source}", "--nearest=man,apple", "--limit=2")
    found = capsys.readouterr().out
    run(f"--from={source}", "--nearest=man,apple")
    assert capsys.readouterr().out == found
    assert "woman 0.707" in found


def run(*flags):
    command.run(command.parser().parse_args([*flags]))


def write_vectors(folder):
    rows = zip(WORDS, ROWS.tolist(), strict=True)
    file = folder / "v.txt"
    file.write_text("".join(f"{w} {' '.join(map(str, r))}\n" for w, r in rows))
    return file


QUESTIONS = """: family
man king woman queen
MAN KING WOMAN Queen
man king woman apple
: gram1
woman queen man king
man woman king prince
"""


def test_analogies_are_counted_as_the_tool_counts_them(tmp_path):
    """Case is folded, the first of two words counts, an unknown answer leaves the
    question out; a, b and c are never the answer."""
    path = tmp_path / "questions.txt"
    path.write_text(QUESTIONS)
    counts = VECTORS.answer_analogies(path)
    assert counts == {"family": Count(2, 3, 3), "gram1": Count(1, 1, 2)}
    assert sums(counts) == {
        "semantic": Count(2, 3, 3),
        "syntactic": Count(1, 1, 2),
        "all": Count(3, 4, 5),
    }
    # Without that rule the answer would be b itself, as it is nearer.
    near = WordVectors(
        ["a", "b", "c", "d"], np.float32([[1, 0], [1, 3], [1, 0.1], [1, 2]])
    )
    path.write_text("a b c d\n")
    assert near.answer_analogies(path)["questions"].correct == 1
    assert VECTORS.first(3).answer_analogies(path)["questions"].known == 0


def test_sections_may_have_the_names_of_totals(tmp_path, capsys):
    source, questions = write_vectors(tmp_path), tmp_path / "q.txt"
    lines = [
        ": all",
        "man king woman king",
        ": syntactic",
        3 * "man king woman queen\n",
    ]
    questions.write_text("\n".join([*lines, ": semantic", "man king woman queen"]))
    run(f"--from={source}", f"--analogies={questions}")
    assert capsys.readouterr().out.splitlines() == [
        "all: 0.00 % (0 of 1 known of 1)",
        "syntactic: 100.00 % (3 of 3 known of 3)",
        "semantic: 100.00 % (1 of 1 known of 1)",
        "total, semantic: 50.00 % (1 of 2 known of 2)",
        "total, syntactic: 100.00 % (3 of 3 known of 3)",
        "total, all: 80.00 % (4 of 5 known of 5)",
    ]


def test_similarities_are_over_the_known_pairs(tmp_path):
    path, pairs = tmp_path / "pairs.tsv", "king queen 7\nKING apple 1\nking prince 5\n"
    for first in ("king\tman\t9\n", "\ufeffking man 9\n", "king \t man  9\r\n"):
        path.write_text(first + pairs, newline="")
        found = VECTORS.compare_similarities(path)
        assert found == (pytest.approx(1.0), 3, 4)
    path.write_text("\ufeffking man\u2028 9\n" + pairs)  # another word, on one line
    assert VECTORS.compare_similarities(path)[1:] == (2, 4)


@pytest.mark.parametrize(
    ("method", "text", "message"),
    [
        ("answer_analogies", "a b c\n", "line 1: not four words"),
        ("answer_analogies", ": empty\n", "has no questions"),
        ("compare_similarities", "a b\n", "line 1: not two words and a number"),
        ("compare_similarities", "a b 1\na c nan\n", "line 2: not two words and"),
        ("compare_similarities", "", "has no pairs"),
    ],
)
def test_files_of_tasks_that_are_wrong_are_refused(method, text, message, tmp_path):
    (tmp_path / "f").write_text(text)
    with pytest.raises(UserError, match=message):
        getattr(VECTORS, method)(tmp_path / "f")
    with pytest.raises(UserError, match="cannot be read"):
        getattr(VECTORS, method)(tmp_path / "none")


def test_of_many_words_an_error_lists_none():
    words = [f"word{number}" for number in range(101)]
    many = WordVectors(words, np.ones((101, 2), np.float32))
    with pytest.raises(UserError, match=r"'zzz'; none of 101 known ones is near it$"):
        many.nearest("zzz")
    with pytest.raises(UserError, match=r"known: word0, word1, .*word99$"):
        many.first(100).nearest("zzz")


def test_the_command_reads_writes_and_asks(tmp_path, capsys):
    source, to = write_vectors(tmp_path), tmp_path / "v.bin"
    questions = tmp_path / "q.txt"
    questions.write_text(QUESTIONS)
    own = (f"--from={source}", "--limit=4")
    run(*own, f"--to={to}", "--nearest=man", f"--analogies={questions}")
    out = capsys.readouterr().out
    assert f"{to}: 4 vectors of width 3" in out
    assert "man: king 0.894, woman 0.707" in out
    assert "total, semantic: 100.00 % (2 of 2 known of 3)" in out
    run(f"--from={to}", "--nearest=queen")
    assert "queen: woman" in capsys.readouterr().out
    content = source.read_bytes()
    run(*own, f"--to={tmp_path / 'v.gz'}", "--format=glove")
    run(f"--from={tmp_path / 'v.gz'}", "--nearest=queen")
    assert "queen: woman" in capsys.readouterr().out
    for flags, message in [
        ((f"--to={to}",), "either --workdir, a run, or --from"),
        ((*own, "--workdir=r"), "either --workdir, a run, or --from"),
        ((*own, "--to=v.npy"), "its name does not end in .bin, .vec, .txt"),
        (own, "give --to, --nearest, --analogies or --similarity"),
        ((*own, f"--to={source}"), f"--to={source} is --from, and would replace it"),
        ((*own, "--to=v.bin", "--format=glove"), "must end in .bin or .bin.gz"),
        ((*own, "--to=v.txt.zst"), "must end in .gz to be compressed"),
        ((*own, "--nearest=man", "--before=r"), "--before needs --workdir"),
    ]:
        with pytest.raises(UserError, match=message):
            run(*flags)
    assert source.read_bytes() == content


def test_entities_have_the_vectors_of_their_texts_before_and_after(tmp_path, capsys):
    """As those of KEPLER, which has no vector of an entity but its text's."""
    folder, texts = write_corpus(tmp_path), tmp_path / "texts.tsv"
    texts.write_text("a\tthe old river\nb\tthe old river\nc\ta small stone\n")
    workdir, *_ = save_untrained(tmp_path / "run", tiny_config(folder, "mlm"))
    flags = f"--workdir={workdir}", f"--before={workdir}"
    run(*flags, f"--texts={texts}", "--nearest=a")
    before, after = capsys.readouterr().out.splitlines()
    assert after.startswith("after, a (the old river): b (the old river) 1.000, c (a")
    assert before.removeprefix("before") == after.removeprefix("after")


def test_a_run_has_the_vectors_of_its_words_without_specials():
    special = special_pieces(2)
    pieces = [*special, "\u2581the", "\u2581river", "\u2581of"]
    model = HuggingFaceModel(words_json(pieces, special, None))
    vocabulary = Vocabulary(model, find_special_tokens(model, 2))
    table = np.arange(256, dtype=np.float32).reshape(128, 2)
    params = {"token": {"embedding": table}, "output": {"embedding": 2 * table}}
    tables = model_options(network="tables", buckets=0)
    run = SimpleNamespace(vocabulary=vocabulary, params=params)
    run.network = SimpleNamespace(options=tables)
    run.objective = objectives.make_objective("skipgram")
    found = LanguageModel(run, needs=None, specials=None).word_vectors
    assert found.words == ["the", "river", "of"]
    np.testing.assert_array_equal(found["river"], table[len(special) + 1])
    run.objective = objectives.make_objective("glove")
    found = LanguageModel(run, needs=None, specials=None).word_vectors
    np.testing.assert_array_equal(found["river"], 3 * table[len(special) + 1])
    run.objective = objectives.make_objective("skipgram")
    run.params = {"token": {"embedding": table, "ngrams": table}}
    run.network.options = dataclasses.replace(tables, buckets=9)
    found = LanguageModel(run, needs=None, specials=None).word_vectors
    assert "rivers" not in found and found["rivers"].any()
    assert found.nearest("rivers", 1)[0][0] == "river"
    run.network.options = tables
    run.objective = objectives.make_objective("lm")
    run.params = {"token": {"tail_1_embedding": table}}
    with pytest.raises(UserError, match="not have one table"):
        _ = LanguageModel(run, needs=None, specials=None).word_vectors
    letters = HuggingFaceModel(wordpiece_json([*special, "a"], "<unk>", None))
    run.vocabulary = Vocabulary(letters, find_special_tokens(letters, 2))
    with pytest.raises(UserError, match=r"is wordpiece: .* data.vocabulary=words"):
        _ = LanguageModel(run, needs=None, specials=None).word_vectors
