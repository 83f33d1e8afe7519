"""What is opened computes on texts what the network computes on its batches."""

import importlib
import json
import re
import shlex
import shutil
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tokenizers

from research import networks
from research.contract.errors import UserError
from research.data.tokenize.tokenizer_types.wordpiece import wordpiece_json
from research.interop.huggingface.sentence_transformers import read_recipe
from research.objectives.layout import input_format
from research.use.export import export_run
from research.use.inference.language_model import padded_width
from research.use.inference.open_run import open_run
from tests.testing import huggingface_goldens, task_runs
from tests.testing.tiny_runs import save_untrained, tiny_config, write_corpus

PAGE = Path(__file__).parents[3] / "docs" / "use.md"
COMMANDS = ("embed", "fill", "predict")
TEXTS = ["the old river reads", "stone", "a small river sees the old stone and the a"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Runs of BERT and GPT that have not begun, in runs/bert and runs/gpt."""
    folder = write_corpus(tmp_path_factory.mktemp("open"))
    for name in ("bert", "gpt"):
        config = tiny_config(folder, name, **{"model.max_length": 32})
        save_untrained(folder / "runs" / name, config)
    return folder


@pytest.fixture(scope="module")
def run(folder):
    return folder / "runs" / "bert"


@pytest.fixture(scope="module")
def opened(run):
    return open_run(run)


def open_golden(name, folder):
    """A golden with a vocabulary, opened."""
    return open_run(f"hf:{huggingface_goldens.copy_with_vocabulary(name, folder)}")


def states_by_hand(name, ids):
    """The states [L, D] that the golden's network gives a row of ids."""
    golden = huggingface_goldens.load(name)
    params = jax.tree.map(jnp.asarray, huggingface_goldens.params_of(golden))
    token, length = np.array([ids], np.int32), np.array([len(ids)])
    causal = golden.model.family.patterns[0] == "causal"
    make = input_format.causal_input if causal else input_format.full_input
    group = make(token, length)
    if name == "xlnet":
        group["token_type"][0, -1] = 2
    states = partial(networks.apply, golden.network, fn=lambda net: net.states(group))
    return jax.jit(states)(params)[0]


@pytest.mark.parametrize(
    ("name", "before", "after", "class_token"),
    [
        ("bert", [2], [3], 0),
        ("xlnet", [], [3, 2], -1),
        ("gpt2", [2], [], -1),
        ("t5-encoder", [], [3], -1),
    ],
)
def test_vectors_are_those_of_the_states(tmp_path, name, before, after, class_token):
    """With the special tokens of the family, and whatever text stands beside."""
    model = open_golden(name, tmp_path)
    expected = states_by_hand(name, [*before, 5, 6, 7, 11, *after])
    mean, of_class = (model.encode(TEXTS, pool) for pool in ("mean", "class"))
    assert mean.shape == (3, 16) and mean.dtype == np.float32
    np.testing.assert_allclose(mean[0], expected.mean(axis=0), atol=1e-5)
    np.testing.assert_allclose(of_class[0], expected[class_token], atol=1e-5)
    assert model.encode([]).shape == (0, 16)


@pytest.mark.parametrize(
    ("name", "overrides", "before", "language"),
    [
        ("bert", {"model.position": "t5", "model.max_length": 32}, "bos_id", 0),
        ("xlm", {"objective.languages": "1"}, "eos_id", 1),
    ],
)
def test_a_run_reads_texts_as_its_rows(folder, name, overrides, before, language):
    """Whatever its positions are: BERT's with T5's begin with bos, too; XLM's are in a
    language and have eos on both sides."""
    config = tiny_config(folder, name, **overrides)
    model = open_run(save_untrained(folder / "read" / name, config)[0])
    vocabulary = model.run.vocabulary
    first, last = getattr(vocabulary.vocab, before), vocabulary.vocab.eos_id
    row = np.array([[first, *vocabulary.encode(TEXTS[0])[0], last]], np.int32)
    group = input_format.full_input(row, np.array([row.shape[1]]))
    group["token_type"] += language
    states = partial(
        networks.apply, model.run.network, fn=lambda net: net.states(group)
    )
    expected = jax.jit(states)(model.run.params)[0]
    mean, of_class = (model.encode(TEXTS[:1], pool)[0] for pool in ("mean", "class"))
    np.testing.assert_allclose(mean, expected.mean(axis=0), atol=1e-5)
    np.testing.assert_allclose(of_class, expected[0], atol=1e-5)
    assert model.num_tokens(TEXTS[:1]) == row.shape[1]


def test_a_vector_is_of_its_text_alone(tmp_path):
    """Neither batches nor padding change it; what is too long is cut."""
    model = open_golden("bert", tmp_path)
    together = model.encode(TEXTS, batch=2)
    for text, vector in zip(TEXTS, together, strict=True):
        np.testing.assert_allclose(model.encode([text], batch=2)[0], vector, atol=1e-5)
    long = " ".join(["river stone"] * 40)
    np.testing.assert_allclose(
        *model.encode([long, long + " and more"], batch=2), atol=1e-6
    )


def test_an_exported_run_is_opened_alike(run, tmp_path):
    """The same vectors, scores and fillings of both."""
    export_run(run, tmp_path / "to")
    own, exported = open_run(run), open_run(f"hf:{tmp_path / 'to'}")
    np.testing.assert_allclose(exported.encode(TEXTS), own.encode(TEXTS), atol=1e-6)
    scores = [[s.log_prob for s in m.score(TEXTS[:2])] for m in (own, exported)]
    np.testing.assert_allclose(*scores, rtol=1e-5)
    masked = ["the old [MASK] reads<mask>", "stone [MASK]"]
    found, expected = own.fill(masked, 3), exported.fill(masked, 3)
    assert [len(masks) for masks in found] == [2, 1]
    with pytest.raises(UserError, match="the text has no mask"):
        own.fill(["stone"])
    for mask, other in zip(found[0], expected[0], strict=True):
        assert [f.token for f in mask] == [f.token for f in other]
        p = [f.probability for f in mask]
        assert len(p) == 3 and p == sorted(p, reverse=True) and sum(p) < 1
        np.testing.assert_allclose(p, [f.probability for f in other], rtol=1e-5)


def test_an_encoder_decoder_has_vectors_of_its_encoder(tmp_path):
    model = open_golden("bart", tmp_path)
    assert model.encode(TEXTS[:1]).shape == (1, 16)
    with pytest.raises(UserError, match="has no class token; set mean"):
        model.encode(TEXTS, "class")


@pytest.mark.parametrize(
    ("start", "name", "first"),
    [
        (None, "bart", [3, 2]),
        (3, "bart", [3, 2]),
        (0, "sequence_to_sequence", [0]),
    ],
)
def test_a_decoder_starts_with_the_token_of_its_folder(tmp_path, start, name, first):
    """Else as its family does: BART's with eos, behind which its texts begin."""
    folder = huggingface_goldens.copy_with_vocabulary("bart", tmp_path)
    huggingface_goldens.change_config(folder, decoder_start_token_id=start)
    run = open_run(f"hf:{folder}").run
    assert run.objective.name == name
    prompt = run.objective.prompt([[5, 6]], run.vocabulary.vocab)
    assert prompt.group["token"].tolist() == [first]


def test_a_decoder_that_starts_with_another_token_is_refused(tmp_path):
    """generation_config.json goes before config.json."""
    folder = huggingface_goldens.copy_with_vocabulary("bart", tmp_path)
    content = {"decoder_start_token_id": 17}
    (folder / "generation_config.json").write_text(json.dumps(content))
    words = r"bart: the decoder starts with token 17 \(.*known here: 3 and 0"
    with pytest.raises(UserError, match=words):
        open_run(f"hf:{folder}")


def test_a_translator_reads_the_vectors_of_words(tmp_path):
    """In texts that it encodes and in prompts; words of one vector are alike."""
    (tmp_path / "pairs.tsv").write_text("the river\tder fluss\nan old stone\tein\n")
    (tmp_path / "words.txt").write_text("river 2 1 0\nold 1 1 1\nan 1 1 1\n")
    files = dict.fromkeys(("data.train", "data.valid"), str(tmp_path / "pairs.tsv"))
    keys = {"data.fields": "0,1", "data.vocabulary": "words", "model.width": 8}
    keys |= {"data.vocabulary_size": 13, "objective.vectors_width": 3}
    keys |= {"objective.vectors": str(tmp_path / "words.txt")}
    keys |= dict.fromkeys(("model.heads", "model.feedforward"))
    config = tiny_config(tmp_path, "cove", **files, **keys)
    model = open_run(save_untrained(tmp_path / "run", config)[0])
    texts = ["river river", "an river", "old river"]
    another, one, same = model.encode(texts)
    assert one.shape == (16,) and np.abs(another - one).max() > 1e-3
    np.testing.assert_allclose(one, same, atol=1e-6)
    (another,), (one,), (same,) = model.generate(texts)
    assert one.text == same.text
    assert another.log_prob != one.log_prob == pytest.approx(same.log_prob)


def test_a_classifier_has_vectors_alone(tmp_path):
    model = open_golden("bert-label", tmp_path)
    assert model.encode(TEXTS[:1], "class").shape == (1, 16)
    with pytest.raises(UserError, match="does not predict masked tokens"):
        model.fill(["a [MASK]"])


def test_special_tokens_that_a_model_lacks_have_no_rows(tmp_path):
    """The softmax counts the rows of the file alone; without bos there is no score."""
    folder = huggingface_goldens.copy_with_vocabulary("gpt2", tmp_path)
    pieces = (folder / "vocab.txt").read_text()
    pieces = pieces.replace("[CLS]", "[one]").replace("[MASK]", "[two]")
    (folder / "vocab.txt").write_text(pieces)
    model = open_run(f"hf:{folder}")
    vocab = model.run.vocabulary.vocab
    assert model.run.network.size == vocab.size == len(vocab.is_special) == 99
    assert vocab.bos_id == vocab.eos_id == 3 and vocab.mask_id >= 99
    assert model.encode(["the river"]).shape == (1, 16)
    begun = model.score(["the river"])[0]  # behind [SEP], the end of another text
    states = states_by_hand("gpt2", [3, *model.run.vocabulary.encode("the river")[0]])
    golden = huggingface_goldens.load("gpt2")
    table = huggingface_goldens.params_of(golden)["token"]["embedding"][:99]
    log_p = jax.nn.log_softmax(states @ table.T)
    token = model.run.vocabulary.encode("the river")[0]
    expected = log_p[np.arange(len(token)), token].sum()
    np.testing.assert_allclose(begun.log_prob, expected, rtol=1e-4)
    assert len(model.generate(["the river"], max_tokens=2)) == 1
    (folder / "vocab.txt").write_text(pieces.replace("[SEP]", "[three]"))
    model = open_run(f"hf:{folder}")
    for use in (model.score, model.generate):
        with pytest.raises(UserError, match="no token that begins a text"):
            use(["the river"])


@pytest.mark.parametrize(
    ("names", "config"),
    [
        (["<|begin_of_text|>", "<|end_of_text|>"], {}),  # Llama 3's
        (["<|one|>", "<|two|>"], {"bos_token_id": 2, "eos_token_id": [3, 4]}),
    ],
)
def test_texts_of_a_causal_model_begin_and_end_by_its_own_tokens(
    tmp_path, names, config
):
    """By their spelling, or by their ids in config.json."""
    folder = huggingface_goldens.copy_with_vocabulary("llama3", tmp_path)
    pieces = (folder / "vocab.txt").read_text()
    for old, new in zip(["[CLS]", "[SEP]"], names, strict=True):
        pieces = pieces.replace(old, new)
    data = wordpiece_json(pieces.split("\n")[:-1], "[UNK]", None)
    tokenizer = tokenizers.Tokenizer.from_str(data.decode())
    tokenizer.add_special_tokens(names)
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "vocab.txt").unlink()
    content = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(content | config))
    model = open_run(f"hf:{folder}")
    vocab = model.run.vocabulary.vocab
    assert (vocab.bos_id, vocab.eos_id, model.specials.before) == (2, 3, (2,))
    assert vocab.is_special[2:4].all() and not {2, 3} & {*vocab.ordinary_ids.tolist()}
    assert model.score(["the river"])[0].log_prob < 0


def test_a_single_text_is_no_list_of_texts(run):
    model = open_run(run)
    uses = model.encode, model.fill, model.score, model.generate
    for use in (*uses, lambda text: model.score(["a"], text)):
        with pytest.raises(
            UserError, match=r"must be a list of texts; .* write \['ab'\]"
        ):
            use("ab")


def test_a_model_is_shown_in_one_line(run):
    words = (
        r"LanguageModel\(objective='mlm', step=3, parameters=[\d,]+, vocabulary=384\)"
    )
    assert re.fullmatch(words, repr(open_run(run)))


@pytest.mark.parametrize(
    ("method", "arguments", "says"),
    [
        ("encode", [[None]], "^texts must be a list of str, .* text 1 is of type None"),
        ("encode", [["x", 3]], "^texts must be .* text 2 is of type int: 3$"),
        (
            "generate",
            [["x", b"y"]],
            "^prompts must be .* text 2 is of type bytes: b'y'$",
        ),
        ("score", [["ab"], [None]], "^contexts must be .* text 1 is of type NoneType"),
        ("score", [["ab"], ["a", "b"]], "^contexts: 2 for 1 texts; give one for each$"),
        ("encode", [None], "^texts must be a list of texts; got NoneType: None$"),
        ("num_tokens", [3], "^texts must be a list of texts; got int: 3$"),
        ("fill", [["a", "\ud800 [MASK]"]], "^texts: text 2 has half of a surrogate"),
        ("fill", [["[MASK]"], -1], "^top_k must be a whole number from 1; got -1$"),
        ("similarity", ["ab"], "^pairs must be a list of pairs of texts; got 'ab'$"),
        ("similarity", [[("a", "b"), ("a",)]], "^pair 2 has 1 texts, not 2: "),
        (
            "predict",
            [["a"]],
            "mlm predicts no labels.* palimpsest fill, generate, score, embed",
        ),
    ],
)
def test_what_is_no_text_is_refused_in_one_line(opened, method, arguments, says):
    with pytest.raises(UserError, match=says):
        getattr(opened, method)(*arguments)


@pytest.mark.parametrize(
    ("method", "options", "says"),
    [
        ("encode", {"batch": 0}, "^batch must be a whole number from 1; got 0$"),
        ("encode", {"batch": -1}, "^batch must be a whole number from 1; got -1$"),
        ("encode", {"batch": 1.5}, "^batch must be a whole number from 1; got 1.5$"),
        ("encode", {"max_length": "x"}, "^max_length must be .* from 0; got 'x'$"),
        ("encode", {"normalize": "no"}, "^normalize must be True, False or None; got"),
        ("generate_each", {"length": "x"}, "^length must be a whole number from 0"),
    ],
)
def test_options_of_other_types_are_refused(opened, method, options, says):
    with pytest.raises(UserError, match=says):
        getattr(opened, method)(["a"], **options)


@pytest.mark.parametrize("source", [None, 3, ["a"], "a\0b", "\ud800", b"a"])
def test_what_is_no_path_is_refused(source):
    with pytest.raises(UserError, match="is not a path: it must be"):
        open_run(source)


def test_what_cannot_be_opened_is_one_line(tmp_path):
    with pytest.raises(UserError, match=r"^/\S+ is not a run: it has no config\.json"):
        open_run(tmp_path)
    with pytest.raises(UserError, match="unknown product_dtype 'half'; known: "):
        open_run(tmp_path, product_dtype="half")
    with pytest.raises(UserError, match="has no tokenizer"):
        open_run(f"hf:{huggingface_goldens.FOLDER / 'bert'}")
    with pytest.raises(UserError, match="unknown pool 'men'; did you mean mean"):
        open_golden("bert", tmp_path).encode(TEXTS, "men")


def test_the_examples_of_the_docs_run(folder, tmp_path, monkeypatch, capsys):
    """What docs/use.md shows, on runs of these names; not what trains, or fetches."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    others = "transformers", "palimpsest.train"
    ours = [block for block in blocks if not any(word in block for word in others)]
    assert len(ours) == 6
    shutil.copytree(task_runs.make("tags", tmp_path).workdir, folder / "runs/tags")
    monkeypatch.chdir(folder)
    names = {}
    for block in ours:
        exec(compile(block, str(PAGE), "exec"), names)
    assert names["vectors"].shape == (2, 32) and names["of_class"].shape == (1, 32)
    assert 0 < names["best"].probability < 1 and len(names["others"]) == 4
    assert names["item"].texts == ("Anna", "lives", "in", "Ulm", ".")
    assert names["first"].log_prob < 0 and names["first"].num_windows == 1
    assert names["text"].log_prob < 0
    assert names["answer"].text == "The Elbe ends in the North Sea."
    for name, flags in re.findall(r"`palimpsest (\w+) (-.*?)`", PAGE.read_text()):
        if name in COMMANDS:
            (folder / "texts.txt").write_text("The old [MASK] is a stone.\n")
            module = importlib.import_module(f"launch.commands.{name}")
            module.run(module.parser().parse_args(shlex.split(flags)))
    assert np.load(folder / "vectors.npy").shape == (1, 32)
    assert '"masks": [[{"text"' in capsys.readouterr().out


def as_sentence_transformer(folder, **pooling):
    """Makes the folder of a golden one of sentence-transformers."""
    types = ["Transformer", "Pooling", "Normalize"]
    paths = ["", "1_Pooling", "2_Normalize"]
    start = "sentence_transformers.models."
    modules = [
        {"path": path, "type": start + name}
        for path, name in zip(paths, types, strict=True)
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir(exist_ok=True)
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    write_json(folder, "sentence_bert_config.json", {"max_seq_length": 6})


def write_json(folder, name, content):
    (folder / name).write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("settings", "tokenizer", "expected"),
    [
        ({}, {"model_max_length": 6}, 6),
        ({}, {"max_len": 6}, 6),
        ({"max_seq_length": None}, {"model_max_length": 6}, 6),
        ({"max_seq_length": 7}, {"model_max_length": 6}, 7),
        ({"processor_kwargs": {"model_max_length": 5}, "max_seq_length": 7}, {}, 5),
        ({"tokenizer_args": {"model_max_length": 5}}, {"model_max_length": 6}, 5),
        ({}, {"model_max_length": 10**30}, 0),
        ({}, {}, 0),
    ],
)
@pytest.mark.parametrize("name", ["bert", "roberta"])
def test_the_length_of_a_folder_of_sentence_transformers(
    tmp_path, settings, tokenizer, expected, name
):
    as_sentence_transformer(tmp_path, pooling_mode="mean")
    (tmp_path / "sentence_bert_config.json").unlink()
    write_json(tmp_path, f"sentence_{name}_config.json", settings | {"a": 1})
    write_json(tmp_path, "tokenizer_config.json", tokenizer)
    assert read_recipe(tmp_path).max_length == expected


@pytest.mark.parametrize(
    ("settings", "fragment"),
    [
        ({"max_seq_length": "6"}, "must be a number of tokens, got '6'"),
        ({"max_seq_length": 0}, "must be a number of tokens, got 0"),
        ({"processor_kwargs": {"do_lower_case": True}}, "arguments of the tokenizer"),
        ({"do_lower_case": True}, "do_lower_case True is not known here"),
    ],
)
def test_a_length_that_is_none_is_refused(tmp_path, settings, fragment):
    as_sentence_transformer(tmp_path, pooling_mode="mean")
    write_json(tmp_path, "sentence_bert_config.json", settings)
    with pytest.raises(UserError, match=fragment):
        read_recipe(tmp_path)


def test_a_folder_of_sentence_transformers_says_what_its_vectors_are(tmp_path, capsys):
    """Its pooling, its length and that vectors have length 1; a keyword wins."""
    folder = huggingface_goldens.copy_with_vocabulary("bert", tmp_path)
    plain = open_run(f"hf:{folder}")
    for mode, pool in (("mean_tokens", "mean"), ("cls_token", "class")):
        as_sentence_transformer(folder, **{f"pooling_mode_{mode}": True})
        model = open_run(f"hf:{folder}")
        expected = plain.encode(TEXTS, pool, max_length=6)
        capsys.readouterr()
        found = model.encode(TEXTS)
        assert capsys.readouterr().err == (
            "1 of 3 texts have more than 6 tokens and are cut\n"
        )
        np.testing.assert_allclose(model.encode(TEXTS, normalize=False), expected)
        norm = np.linalg.norm(expected, axis=1, keepdims=True)
        np.testing.assert_allclose(found, expected / norm, rtol=1e-6)
    with pytest.raises(UserError, match="max_length is 21, but the model reads 3 to"):
        model.encode(TEXTS, max_length=21)


@pytest.mark.parametrize(
    ("pooling", "words"),
    [
        ({"pooling_mode_max_tokens": True}, "pooling max_tokens is not known"),
        ({"pooling_mode": ["mean", "cls"]}, "pooling mean, cls is not known"),
        ({"pooling_mode": "lasttoken"}, "the class token of this network is the first"),
    ],
)
def test_vectors_that_are_not_known_are_refused(tmp_path, pooling, words):
    folder = huggingface_goldens.copy_with_vocabulary("bert", tmp_path)
    as_sentence_transformer(folder, **pooling)
    with pytest.raises(UserError, match=words):
        open_run(f"hf:{folder}")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("Normalize", "Dense", "the module Dense is not known"),
        ("path", "folder", "a module lacks 'path'"),
        ("models.Pooling", "models.Normalize", "has no Transformer or no Pooling"),
    ],
)
def test_a_module_that_is_not_known_is_refused(tmp_path, old, new, words):
    as_sentence_transformer(tmp_path, pooling_mode="mean")
    text = (tmp_path / "modules.json").read_text().replace(old, new)
    (tmp_path / "modules.json").write_text(text)
    with pytest.raises(UserError, match=words):
        read_recipe(tmp_path)


@pytest.mark.parametrize("place", ["../other", "/tmp"])
def test_a_module_outside_of_the_folder_is_refused(place, tmp_path):
    folder = huggingface_goldens.copy_with_vocabulary("bert", tmp_path)
    as_sentence_transformer(folder, pooling_mode="mean")
    text = (folder / "modules.json").read_text().replace("1_Pooling", place)
    (folder / "modules.json").write_text(text)
    with pytest.raises(UserError, match=f"{place} is not in this folder"):
        open_run(f"hf:{folder}")


def test_lengths_of_rows_are_few_and_at_most_a_quarter_too_long():
    widths = {n: padded_width(n) for n in range(16, 513)}
    assert all(n <= width <= max(n + 7, 1.25 * n) for n, width in widths.items())
    assert len({*widths.values()}) <= 20
