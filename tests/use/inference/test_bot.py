"""Answers are slices of documents, of the best span that the network says there is."""

import json
from functools import partial
from types import SimpleNamespace

import jax
import numpy as np
import pytest

from research import networks
from research.contract.errors import UserError
from research.use.export import export_run
from research.use.inference.bot import Bot
from research.use.inference.open_run import open_run
from research.use.inference.serving import embedder
from research.use.inference.span_reader import Span, SpanReader
from research.use.retrieval.passages import cut_document
from research.use.retrieval.search import make_index
from tests.testing import huggingface_goldens
from tests.testing.tiny_runs import WORDS, save_untrained, tiny_config

QUESTIONS = ["old river", "a small stone reads?", "river", "the 石 stone"]
TEXTS = {
    "one": "The old river reads a stone.\r\n\r\nA small e\u0301 river. " * 20,
    "two": "a stone 石。 small old the river reads",
    "three": "stone",
}


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    """BERT's golden of question answering, which reads 20 tokens."""
    folder = tmp_path_factory.mktemp("reader")
    path = huggingface_goldens.copy_with_vocabulary("bert-span", folder)
    reader = SpanReader(open_run(f"hf:{path}"))
    reader.warm_up()
    return reader


@pytest.fixture(scope="module")
def index():
    return make_index([p for name in TEXTS for p in cut_document(name, TEXTS[name])])


@pytest.mark.parametrize(
    ("questions", "top_k", "says"),
    [
        (None, 1, "^questions must be a list of texts; got NoneType"),
        ("river", 1, r"^questions must be a list of texts; .* write \['river'\]$"),
        (
            [None],
            1,
            "^questions must be a list of str, but its text 1 is of type NoneType",
        ),
        (["\udc00"], 1, "^questions: text 1 has half of a surrogate pair"),
        (["river"], -1, "^top_k must be a whole number from 1; got -1$"),
    ],
)
def test_what_is_no_question_is_refused(index, questions, top_k, says):
    with pytest.raises(UserError, match=says):
        Bot(index).ask(questions, top_k)


def test_the_margin_is_that_of_the_best_span(reader):
    """By hand, from the logits of one row: bos, question, eos, passage, eos."""
    question, passage = "old river", "the stone reads a small river"
    golden = huggingface_goldens.load("bert-span")
    encode = reader._run.vocabulary.encode
    first, token = (encode(text)[0].tolist() for text in (question, passage))
    row = np.array([[2, *first, 3, *token, 3]], np.int32)
    group = {
        **{name: np.zeros_like(row) for name in ("rank", "reach")},
        "token": row,
        "position": np.arange(row.size, dtype=np.int32)[None],
        "segment": np.ones_like(row),
        "token_type": (np.arange(row.size) > len(first) + 1).astype(np.int32)[None],
    }
    params = huggingface_goldens.params_of(golden)

    def span(net):
        return net.head("span", net.states(group))

    logits = np.asarray(
        jax.jit(partial(networks.apply, golden.network, fn=span))(params)
    )
    start, end = logits[0].T
    begin = len(first) + 2
    best = max(
        (start[i] + end[j] - start[0] - end[0], i - begin, j - begin)
        for i in range(begin, begin + len(token))
        for j in range(i, begin + len(token))
    )
    ((found,),) = reader.read([(question, [passage])])
    np.testing.assert_allclose(found.margin, best[0], atol=1e-5)
    words = passage.split()
    assert passage[found.start : found.end] == " ".join(words[best[1] : best[2] + 1])


def test_answers_are_the_same_together_and_compile_nothing(reader, index, compiled):
    bot = Bot(index, reader, threshold=0.0)
    alone = [bot.ask([question], 50)[0] for question in QUESTIONS]
    compiled.clear()
    together = bot.ask(QUESTIONS * 4, 50)
    assert not compiled
    jax.jit(lambda x: x + 3)(np.float32(1))
    assert compiled  # the listener hears what is compiled
    assert together == alone * 4
    assert any(each.passage_start for reply in alone for each in reply.answers)
    for reply in alone:
        assert reply.answer_type == "span" and reply.answers
        assert sum(answer.score for answer in reply.answers) < 1
        for answer in reply.answers:
            text = TEXTS[answer.document]
            assert answer.text == text[answer.start : answer.end] == answer.text.strip()
            assert answer.text in answer.passage


def test_a_threshold_leaves_no_answer_but_the_passages(reader, index):
    reply = Bot(index, reader, threshold=0.999).ask(["old river"])[0]
    assert reply.answers == [] and reply.passages
    assert Bot(index).ask(["nothing"])[0].answers == []


def test_an_answer_in_two_passages_that_overlap_is_one():
    """Its probability is not divided among them, and the threshold is of all of it."""
    text = " ".join(f"river{n}" for n in range(150))

    def read(asked):
        ((word, passages),) = asked
        starts = [passage.index(word) for passage in passages]
        return [[Span(n, at, at + len(word), 0.0) for n, at in enumerate(starts)]]

    reader = SimpleNamespace(read=read)
    bot = Bot(make_index([*cut_document("long", text)]), reader, threshold=0.4)
    (reply,) = bot.ask(["river70"])
    assert len(reply.passages) == 2
    ((answer, score, *_, start, end, _),) = reply.answers
    assert (answer, text[start:end], score) == ("river70", "river70", 0.5)


def test_without_a_reader_the_best_sentence_is_the_answer(index):
    best, *_ = Bot(index).ask(["Which river is small?"], top_k=2)[0].answers
    assert best.text == "A small e\u0301 river." and best.document == "one"
    assert TEXTS["one"][best.start : best.end] == best.text
    assert 0 < best.score < 1


def test_a_model_that_reads_no_spans_is_refused(tmp_path):
    path = huggingface_goldens.copy_with_vocabulary("bert", tmp_path)
    with pytest.raises(UserError, match="objective mlm reads no answers: a reader is"):
        SpanReader(open_run(f"hf:{path}"))


def test_texts_of_all_widths_leave_nothing_to_compile(tmp_path, compiled):
    path = huggingface_goldens.copy_with_vocabulary("bert", tmp_path)
    model = open_run(f"hf:{path}")
    encode, encode_one = embedder(model)
    texts = [*TEXTS.values(), "a " * 30, "a"]
    compiled.clear()
    found = encode_one(texts)
    assert not compiled
    np.testing.assert_allclose(found, encode(texts), atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, rtol=1e-6)


def test_a_run_and_its_export_read_alike(tmp_path):
    """Rows have the separators of the run's format, which the tokenizer says."""
    context, answer = " ".join(WORDS[:8]), WORDS[3]
    golds = [{"text": answer, "answer_start": context.index(answer)}]
    asked = [{"id": f"{n}", "question": WORDS[n], "answers": golds} for n in range(5)]
    articles = [{"title": "t", "paragraphs": [{"context": context, "qas": asked}]}]
    (tmp_path / "qa.json").write_text(json.dumps({"data": articles}))
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    (tmp_path / "vocab.txt").write_text("\n".join([*pieces, ""]))
    settings = {
        "objective": {"name": "question_answering", "format": "roberta"},
        "model": {"norm_placement": "post", "position": "learned", "max_length": 48},
        "data": dict.fromkeys(("train", "valid"), str(tmp_path / "qa.json"))
        | {"vocabulary": str(tmp_path / "vocab.txt"), "sentinels": 0}
        | {"format": "squad"},
        "optimizer": {"warmup_steps": 2},
    }
    flat = {f"{a}.{b}": v for a, own in settings.items() for b, v in own.items()}
    workdir, *_ = save_untrained(
        tmp_path / "run", tiny_config(tmp_path, "finetune", **flat)
    )
    export_run(workdir, tmp_path / "to")
    labels = open_run(workdir).run.vocabulary.vocab.labels
    assert labels == (
        "answerable",
    )  # so that predict gives an answer, as evaluate does
    readers = [SpanReader(open_run(each)) for each in (workdir, f"hf:{tmp_path}/to")]
    question = [(WORDS[0], [" ".join(WORDS[:12])])]
    ((own,),), ((exported,),) = (reader.read(question) for reader in readers)
    assert own[:3] == exported[:3]
    np.testing.assert_allclose(own.margin, exported.margin, atol=1e-5)
