"""A run is exported as networks, tokenizers and cards, and starts another run."""

import json
import resource
import shutil
from pathlib import Path

import jax
import numpy as np
import pytest
import tokenizers
from etils import epath
from huggingface_hub import ModelCard
from tokenizers import normalizers, processors

from research.contract.errors import UserError
from research.data.tokenize.tokenizer_types.wordpiece import wordpiece_json
from research.interop.partial_restore import load_on_host, restore_params
from research.networks.transformer.transformer import Network
from research.objectives import make_objective
from research.objectives.tasks import heads
from research.program.restored import run_checkpoint
from research.record.workdir import write_result
from research.use.export import export_run, exported_networks, start_ids
from research.use.model_card import model_card
from tests.testing import huggingface_goldens, task_runs
from tests.testing.huggingface_networks import network_of
from tests.testing.tiny_runs import WORDS, save_untrained, tiny_config, write_corpus


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("export"))


@pytest.fixture(scope="module")
def electra(folder):
    """The workdir of a run of ELECTRA that has not begun, and its state."""
    config = tiny_config(folder, "electra", **{"data.vocabulary": "bytebpe"})
    return save_untrained(folder / "electra", config)


def test_electra_becomes_two_networks_that_start_another_run(electra, tmp_path):
    workdir, state, vocabulary = electra
    lines = export_run(workdir, tmp_path / "to")
    assert "discriminator: ElectraForPreTraining" in lines[0]
    assert "generator: ElectraForMaskedLM" in lines[1]
    assert {path.name for path in (tmp_path / "to" / "generator").iterdir()} == {
        "README.md",
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    }
    initial = jax.tree.map(lambda leaf: leaf * 0 + 7, state.params)
    num_pieces = len(vocabulary.model.pieces)
    found, missing = restore_params(
        f"hf:{tmp_path / 'to'}", "", initial, vocabulary="", num_pieces=num_pieces
    )
    rows = vocabulary.vocab.size

    def check(restored, own):
        cut = slice(rows if len(own) > rows else None)
        np.testing.assert_array_equal(np.asarray(restored)[cut], np.asarray(own)[cut])

    jax.tree.map(check, found, state.params)
    assert all("from row" in name for name in missing)


def test_the_card_says_what_made_the_model(electra, tmp_path):
    workdir, *_ = electra
    export_run(workdir, tmp_path, all_steps=True)
    card = (tmp_path / "step_3" / "generator" / "README.md").read_text()
    assert ModelCard(card).data.pipeline_tag == "fill-mask"
    assert "| objective | electra (" in card and "rate=0.15" in card
    assert "| fingerprint of the data | abc |" in card and "| step | 3 |" in card


def test_a_full_disk_leaves_no_half_of_a_folder(electra, tmp_path):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    for size in (100, 30_000):  # not even a config.json; no weights
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
        try:
            with pytest.raises(UserError, match=r"/new/to cannot be written \(.*large"):
                export_run(electra[0], tmp_path / "new" / "to")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert not any((tmp_path / "new").iterdir())


@pytest.mark.parametrize(
    ("name", "objective", "row", "start"),
    [
        ("bert", "mlm", "bos A eos", None),
        ("gpt2", "lm", "bos A", None),
        ("xlnet", "plm", "A eos bos", None),
        ("t5", "dae", "A eos", "pad_id"),
        ("bart", "bart", "bos A eos", "eos_id"),
        ("bart-label", "sequence_classification", "bos A eos", "eos_id"),
        ("marian", "sequence_to_sequence", "A eos", "pad_id"),
    ],
)
def test_texts_begin_and_end_as_in_the_family(name, objective, row, start):
    """T5's decoder begins with pad and its text has eos alone; BART's begins with
    eos."""
    network = network_of(huggingface_goldens.load(name))
    found = make_objective(objective).specials(network.vocab).row("A")
    names = {network.vocab.bos_id: "bos", network.vocab.eos_id: "eos"}
    assert " ".join(names.get(piece, piece) for piece, _ in found) == row
    expected = (
        {"decoder_start_token_id": getattr(network.vocab, start)} if start else {}
    )
    assert start_ids(network, make_objective(objective)) == expected


def vocabulary_file(folder):
    """A vocabulary whose file has a template, which no run's rows are laid out by."""
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", *WORDS]
    data = wordpiece_json(pieces, "[UNK]", normalizers.BertNormalizer())
    tokenizer = tokenizers.Tokenizer.from_str(data.decode())
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[MASK] $A [CLS]", special_tokens=[("[MASK]", 4), ("[CLS]", 2)]
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    return str(folder / "tokenizer.json")


BART = {"model.norm_placement": "post", "model.norm_epsilon": 1e-5}


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("dae", BART | {"model.position": "learned"}),
        ("tlm", {"model.norm_placement": "post"}),
        ("lm", {"model.position": "learned"}),
    ],
)
def test_a_text_is_exported_with_the_specials_of_its_objective(
    folder, tmp_path, name, settings
):
    """Not with those of another objective of such a network, nor with those of the
    vocabulary's file."""
    settings |= {"objective.name": name, "model.token_types": 0}
    settings |= {"data.vocabulary": vocabulary_file(tmp_path)}
    config = tiny_config(folder, {"lm": "gpt2"}.get(name, "mlm"), **settings)
    workdir, _, vocabulary = save_untrained(tmp_path / "run", config)
    export_run(workdir, tmp_path / "to")
    tokenizer = tokenizers.Tokenizer.from_file(str(tmp_path / "to" / "tokenizer.json"))
    specials = make_objective(name).specials(vocabulary.vocab)
    text = vocabulary.encode("the old river")[0].tolist()
    assert tokenizer.encode("the old river").ids == [
        *specials.before,
        *text,
        *specials.after,
    ]


EXPORTED_TASKS = [  # tests/proofs/huggingface_exports.py has the others
    "numbers",
    "without_types",
    "xlnet",
    "tags",
]


@pytest.mark.parametrize("name", EXPORTED_TASKS)
def test_a_task_is_exported_with_its_rows_labels_and_unit(name, tmp_path):
    """The tokenizer gives the rows of training, and the inputs that the model reads."""
    run, to = task_runs.make(name, tmp_path), tmp_path / "to"
    lines = list(export_run(run.workdir, to))
    config, tokenizer_config = (
        json.loads((to / file).read_text())
        for file in ("config.json", "tokenizer_config.json")
    )
    architecture = task_runs.CASES[name][3]
    assert config["architectures"] == [architecture] and architecture in lines[0]
    tokenizer = tokenizers.Tokenizer.from_file(str(to / "tokenizer.json"))
    own = sorted(zip(run.rows, run.token_types, strict=True))
    texts = [(parts,) if name == "tags" else parts for parts in run.parts]
    found = [
        tokenizer.encode(*parts, is_pretokenized=name == "tags") for parts in texts
    ]
    assert sorted((each.ids, each.type_ids) for each in found) == own
    reads_types = name != "without_types"
    assert ("token_type_ids" in tokenizer_config["model_input_names"]) == reads_types
    labels = {"numbers": ["LABEL_0"]}.get(name, sorted(task_runs.LABELS))
    assert [*config["id2label"].values()] == labels
    assert tokenizer_config["model_max_length"] == (32 if name == "xlnet" else 48)
    if name == "numbers":
        assert config["problem_type"] == "regression"
        model = huggingface_goldens.restore.open_model(to)
        params = load_on_host(run_checkpoint(run.workdir)[0], "params")["params"]
        expected = 5 * np.asarray(params["head_label"]["out"]["kernel"]).T
        np.testing.assert_allclose(model.tensors["classifier.weight"], expected)


LINEAR = {"head": "linear"}
TASK_OF = {
    heads.TEXT: "sequence_classification",
    heads.WORDS: "token_classification",
    heads.SPANS: "question_answering",
}


@pytest.mark.parametrize(
    ("objective", "words"),
    [
        *(
            (
                {"name": TASK_OF[head.reads[0]], "head": name},
                f"head={name}: {head.unexported}",
            )
            for name, head in heads.HEADS.items()
            if head.unexported
        ),
        ({"pool": "max"}, r"objective\.pool=max"),
        ({"format": "xlnet"}, r"xlnet: .*position=learned read the first token"),
        (LINEAR | {"features": "concat"}, r"objective\.features=concat: .*last layer"),
        (LINEAR | {"lstm_layers": 1}, r"objective\.lstm_layers: .*no BiLSTM"),
        (LINEAR | {"vectors": "random", "vectors_width": 3}, r"objective\.vectors: "),
        (
            {"format": "gpt", "lm_coef": 0.5},
            r"objective\.lm_coef: .* no readout beside their head",
        ),
        ({"head": "gelu", "head_width": 20}, r"objective\.head_width=20: .*width 256"),
    ],
)
def test_a_head_that_reads_something_else_is_refused(electra, objective, words):
    config = {"objective": {"name": "sequence_classification"} | objective}
    with pytest.raises(UserError, match=words):
        exported_networks(config, Network(position="learned"), {}, electra[2])


def test_a_network_of_two_directions_is_refused(electra):
    config, params = {"objective": {"name": "lm"}}, {"forward/token/embedding": None}
    with pytest.raises(UserError, match=r"no architecture of two directions \(biLM\)"):
        exported_networks(config, Network(), params, electra[2])


@pytest.mark.parametrize("name", ["distill", "theseus"])
def test_a_student_of_a_task_is_exported_as_the_task(electra, name):
    """Not as the wrapper; a student that predicts nothing has no head to be refused."""

    def export(base, params=(), **fields):
        fields |= {"name": name, "base_objective": "sequence_classification"}
        config = {"objective": fields | {"base": base}}
        own = {path: np.ones(2, np.float32) for path in params}
        return exported_networks(config, Network(position="learned"), own, electra[2])

    with pytest.raises(UserError, match=r"objective\.pool=max"):
        export({"pool": "max"})
    out = "head_label/out/kernel"
    regression = {"task": "regression", "label_scale": 5.0, "head": "gelu"}
    network = export(regression | {"pool": "mean"}, [out])[""]
    assert network.problem_type == "regression" and (network.params[out] == 5).all()
    assert (network.head_activation, network.pool) == ("gelu", "mean")
    if name == "distill":
        assert export({"pool": "max"}, hard=0, soft=0, hidden=1)[""].problem_type == ""


def test_the_card_names_data_base_model_and_licence(electra, tmp_path):
    workdir = tmp_path / "tuned"
    shutil.copytree(electra[0], workdir)
    base = tmp_path / "base"
    base.mkdir()
    (base / "README.md").write_text("---\nlicense: mit\n---\n")
    config = json.loads((workdir / "config.json").read_text())
    for source, front in ((f"hf:{base}", ""), ("hf:a/b", "a/b")):
        config["train"]["init_from"] = source
        card = model_card(workdir, config, {"step": 3}, licence="apache-2.0")
        name = front or "base"  # the folders above it are not public
        licence = "not known" if front else "mit"
        assert f"| base model | {name} |\n| its licence | {licence} |" in card
        head = ModelCard(card).data  # as the Hub reads it
        assert (head.license, head.base_model) == ("apache-2.0", front or None)
        assert head.tags == ["palimpsest", "electra"]
    assert f"| text | {Path(config['data']['corpus']).name} |" in card
    assert str(tmp_path) not in card and "| learning_rate |" not in card


def test_the_card_has_evaluations_with_intervals(electra, tmp_path):
    workdir = epath.Path(tmp_path / "run")
    shutil.copytree(electra[0], workdir)
    config = json.loads((workdir / "config.json").read_text())
    (workdir / "metrics.jsonl").write_text('{"step": 3, "valid/loss": 1.5}\n')
    for steps, margins in ((3, {"valid/loss": 0.25}), (4, {})):
        result = {"steps": steps, "best_step": 0, "margins": {"valid/loss": 0.25}}
        write_result(workdir, result)
        card = model_card(workdir, config, {"step": 3})
        (found,) = ModelCard(card).data.eval_results
        interval = " (95 % interval ± 0.25)" if margins else ""
        assert found.metric_name == f"loss{interval}" and found.metric_value == 1.5
        assert found.dataset_split == "valid"


def test_what_cannot_be_exported_is_refused(electra, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    with pytest.raises(UserError, match=r"--to=.*is not an empty folder"):
        export_run(electra[0], tmp_path / "full")
    with pytest.raises(UserError, match=r"is not a run: it has no config\.json"):
        list(export_run(tmp_path, tmp_path / "to"))


def test_a_run_of_another_version_is_named(electra, tmp_path):
    shutil.copytree(electra[0], tmp_path / "old")
    path = tmp_path / "old" / "config.json"
    config = json.loads(path.read_text())
    config["model"]["joined_stacks"] = config["model"].pop("shared_stacks")
    path.write_text(json.dumps(config))
    with pytest.raises(UserError, match=r"of another version: .*joined_stacks.*shared"):
        list(export_run(tmp_path / "old", tmp_path / "to"))
