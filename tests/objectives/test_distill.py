"""Distillation: what a student learns from a teacher, what is refused, and a run."""

from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from launch.config import load_config
from research import networks, objectives
from research.config.config import Config
from research.contract.batch import CONSTANTS
from research.contract.errors import UserError
from research.interop.partial_restore import restore_params
from research.objectives.taught import distillation
from research.program.setup import build_program
from tests.testing import tiny_runs
from tests.testing.compiled_apply import apply
from tests.testing.model_options import model_options
from tests.testing.objective_cases import VOCAB, make_batch, make_constants
from tests.testing.tiny_runs import random_state, tiny_config
from tests.testing.trees import parameter_shapes

LENGTH = 16
SIZES = {"layers": 4, "width": 16, "heads": 2, "feedforward": 24, "token_types": 2}
CLASSIFIER = {"base_objective": "sequence_classification"}
TERMS = ("soft", "cosine", "hidden", "attention", "relation")


def make(**fields):
    """The objective, with a teacher of four layers."""
    return objectives.make_objective("distill", teacher_model=SIZES, **fields)


class Case:
    """An objective, a student, and a batch with a teacher of random parameters."""

    def __init__(self, objective, student=SIZES, dropout=0.0):
        self.objective = objective
        options = model_options(**{**student, "dropout": dropout})
        self.network = networks.build(options, objective.needs(VOCAB), VOCAB)
        _, batch = make_batch(objective, LENGTH)
        batch["example"] = np.arange(8, dtype=np.int32)
        self.batch = jax.tree.map(jnp.asarray, batch)
        self.constants = make_constants(objective)[CONSTANTS]
        rng = np.random.default_rng(0)
        shapes = networks.unbox(objective.constants(VOCAB)["teacher"].arrays)
        self.teacher = jax.tree.map(
            lambda leaf: jnp.asarray(rng.normal(0, 0.3, leaf.shape), leaf.dtype), shapes
        )

    def terms(self, params, dropout_key=None):
        return networks.apply(self.network, params, self._loss, dropout_key)

    def init(self):
        """The shapes of the student's parameters."""
        return parameter_shapes(self.network, self._loss)

    def _loss(self, net):
        batch = self.batch | {CONSTANTS: self.constants | {"teacher": self.teacher}}
        return self.objective.loss(net, batch, jax.random.key(0))[0]


def test_a_student_that_is_the_teacher_has_no_loss_and_no_gradient():
    factors = dict.fromkeys(TERMS, 1.0) | {"hard": 0.0}
    other = {"temperature": 3.0, "soft_at": "text", "projection": "none"}
    case = Case(make(**factors, **other), dropout=0.5)

    @jax.jit
    def grad(params, key=None):
        def total(params):
            terms = case.terms(params, key)
            return sum(t.coef * t.total for t in terms.values()), terms

        return jax.grad(total, has_aux=True)(params)

    found, terms = grad(case.teacher)
    for name in TERMS:
        assert terms[name].weight > 0
        assert abs(terms[name].total / terms[name].weight) < 1e-5, name
    gradients = [np.abs(leaf).max() for leaf in jax.tree.leaves(found)]
    other = grad(jax.tree.map(lambda leaf: 0.5 * leaf, case.teacher))
    largest = max(np.abs(leaf).max() for leaf in jax.tree.leaves(other[0]))
    assert largest > 1 and max(gradients) < 1e-5 * largest
    one, two = (grad(case.teacher, jax.random.key(seed))[1] for seed in (1, 2))
    for name in TERMS:  # with dropout the student is another one, the teacher is not
        assert one[name].total > 1e-3 and one[name].total != two[name].total, name


def test_hard_is_the_base_objectives_loss_and_without_soft_there_is_no_readout():
    case = Case(make(hard=2.0, soft=0.0, cosine=1.0, base={"rate": 0.3}))
    base = objectives.make_objective("mlm", rate=0.3)
    _, batch = make_batch(base, LENGTH)
    np.testing.assert_array_equal(batch["scored"], case.batch["scored"])
    terms = jax.jit(case.terms)(case.teacher)
    own = apply(
        case.network, case.teacher, lambda net: base.loss(net, case.batch, None)[0]
    )
    assert terms["mlm"].coef == 2 and terms["accuracy"].coef == 0
    np.testing.assert_allclose(terms["mlm"].total, own["mlm"].total, rtol=1e-5)
    bare = Case(make(hard=0.0, soft=0.0, relation=1.0))
    assert {"token", "output"} <= case.init().keys()
    assert bare.init().keys() == bare.teacher.keys() == {"token", "embeddings", "stack"}
    assert not bare.objective.score_methods and not bare.objective.fills_masks


def test_a_student_of_another_size_learns_from_the_layers_of_its_map():
    """Each other layer, by a projection to the teacher's width."""
    small = {"layers": 2, "width": 12, "heads": 3, "token_types": 2}
    fields = {"soft": 0.0, "relation": 1.0, "relation_heads": 4, "hidden": 1.0}
    default, given, last = (
        Case(make(**fields, layer_map=layers), small)
        for layers in ((), (1, 3), (-1, 3))
    )
    params = jax.tree.map(
        lambda leaf: 0.3 * np.random.default_rng(1).normal(size=leaf.shape),
        default.init(),
    )
    assert params["head_hidden"]["out"]["kernel"].shape == (12, 16)
    found = [jax.jit(case.terms)(params) for case in (default, given, last)]
    for name in ("hidden", "relation"):
        np.testing.assert_array_equal(found[0][name].total, found[1][name].total)
        assert 0 < found[2][name].total < found[1][name].total


def test_a_layers_states_are_those_after_it():
    """The last layer's are the states of the network, of width 16."""
    fields = {"hidden": 1.0, "hidden_from": "blocks", "projection": "none"}
    case = Case(make(**fields, hard=0.0, soft=0.0, layer_map=(-1, -1, -1, 3)))
    params = jax.tree.map(lambda leaf: 0.5 * leaf, case.teacher)
    (term,) = jax.jit(case.terms)(params).values()
    own, other = (
        apply(case.network, each, lambda net: net.states(case.batch))
        for each in (params, case.teacher)
    )
    is_text = np.asarray(case.batch["segment"]) > 0
    error = ((own - other) ** 2)[is_text]
    np.testing.assert_allclose(term.total / term.weight, error.mean(), rtol=1e-5)


@pytest.mark.parametrize(
    ("base", "batch_has", "expected"),
    [
        ("sequence_classification", "label_weight", "soft_class"),
        ("token_classification", "weight", "soft_class"),
        ("dae", "weight", "soft"),
    ],
)
def test_classes_tags_and_decoders_are_distilled(base, batch_has, expected):
    case = Case(make(base_objective=base, teacher_dtype="bfloat16"))
    types = {leaf.dtype for leaf in jax.tree.leaves(case.teacher)}
    assert types == {jnp.bfloat16.dtype}
    terms = jax.jit(case.terms)(
        jax.tree.map(lambda leaf: leaf.astype(jnp.float32), case.teacher)
    )
    assert abs(terms[expected].total / terms[expected].weight) < 1e-3
    assert terms[expected].weight == case.batch[batch_has].sum() > 0
    assert case.objective.predicts == objectives.make_objective(base).predicts


def test_labels_of_which_a_text_has_any_number_are_independent():
    """A teacher that is as much surer of all labels teaches something."""
    case = Case(make(**CLASSIFIER, base={"task": "multi"}, hard=0.0))
    params = jax.tree.map(lambda leaf: leaf, case.teacher)
    params["head_label"]["out"]["bias"] += 3.0
    term = jax.jit(case.terms)(params)["soft_class"]
    assert term.total > 0.1 * term.weight > 0


@pytest.mark.parametrize(
    ("field", "name"), [("soft", "soft_class"), ("relation", "relation")]
)
def test_both_networks_read_the_vectors_of_words_that_the_base_has(field, name):
    """They are constants beside the teacher; without a head they are read, too."""
    base = {"vectors": "random", "vectors_width": 8}
    fields = {"hard": 0.0, "soft": 0.0} | {field: 1.0}
    case, other = (Case(make(**CLASSIFIER, base=base, **fields)) for _ in range(2))
    assert case.constants.keys() == {"vectors", "teacher"}
    term = jax.jit(case.terms)(case.teacher)[name]
    assert term.weight > 0 and abs(term.total / term.weight) < 1e-5
    other.constants["vectors"]["token"]["embedding"] *= 2.0
    half = jax.tree.map(lambda leaf: 0.5 * leaf, case.teacher)
    one, two = (jax.jit(each.terms)(half)[name].total for each in (case, other))
    assert abs(one - two) > 1e-3 * one


def test_a_number_has_no_classes():
    """A softmax over one value would be 0 whatever the networks say."""
    objective = make(**CLASSIFIER, base={"task": "regression"})
    both = SimpleNamespace(first_readout=None, heads={"label": jnp.ones((2, 1))})
    with pytest.raises(UserError, match="predicts neither tokens nor classes"):
        objective._soft(both, both, {"label_weight": jnp.ones(2)})


def test_classes_and_tokens_have_the_weights_of_their_own_positions():
    """A row has as many scored mentions as masked tokens."""
    case = Case(make(base_objective="wklm", base={"rate": 0.25, "head": "softmax"}))
    weights = case.batch["weight"], case.batch["mention_weight"]
    assert weights[0].shape == weights[1].shape and weights[0].sum() != weights[1].sum()
    half = jax.tree.map(lambda leaf: 0.5 * leaf, case.teacher)
    terms = jax.jit(case.terms)(half)
    for name, weight in zip(("soft", "soft_class"), weights, strict=True):
        assert terms[name].weight == weight.sum()
    scored = case.batch["scored"]
    readouts = (
        apply(
            case.network,
            params,
            lambda net: net.readout(net.states(case.batch, scored)),
        )
        for params in (half, case.teacher)
    )
    expected = distillation.vocabulary_divergence(*readouts, weights[0], 1.0)
    np.testing.assert_allclose(terms["soft"].total, expected.total, rtol=1e-5)


LSTM = {"network": "lstm", "layers": 1, "width": 16}


@pytest.mark.parametrize(
    ("size", "fields"),
    [
        (SIZES, {"base_objective": "infoword"}),
        (LSTM, {"base_objective": "lm", "base": {"temporal_penalty": 1.0}}),
    ],
)
def test_states_of_the_first_call_are_compared(size, fields):
    """Of two calls, and of one that gives states without dropout beside them."""
    fields = {**fields, "teacher_model": size, "cosine": 1.0}
    case = Case(objectives.make_objective("distill", **fields), size)
    half = jax.tree.map(lambda leaf: 0.5 * leaf, case.teacher)
    found = jax.jit(case.terms)(half)["cosine"]
    states = (
        apply(case.network, params, lambda net: net.states(case.batch))
        for params in (half, case.teacher)
    )
    is_text = (case.batch["segment"] > 0).astype(jnp.float32)
    expected = distillation.cosine_distance(*states, is_text)
    np.testing.assert_allclose(found[:2], expected[:2], rtol=1e-5)


@pytest.mark.parametrize(
    ("fields", "student", "words"),
    [
        ({"cosine": 1.0}, {"width": 8}, "model.width is 8 and the teacher's 16"),
        (
            {"hidden": 1.0, "projection": "none"},
            {"width": 8},
            "projection=none.*compares states of one width",
        ),
        ({"attention": 1.0}, {"heads": 4}, "heads is 4 and the teacher's 2"),
        ({"attention": 1.0}, {"position": "t5"}, "biases of positions"),
        ({"relation": 1.0}, {"heads": 4}, "relation_heads is 0, but model.heads is 4"),
        ({"relation": 1.0, "relation_heads": 3}, {}, "must divide the widths.* 16 and"),
        ({"hidden": 1.0}, {"layers": 3}, "not a multiple of the student's 3"),
        (
            {"hidden": 1.0, "layer_map": (1, 4)},
            {"layers": 2},
            "teacher has layers 0 to 3",
        ),
        ({"hidden": 1.0, "layer_map": (1,)}, {"layers": 2}, "layer_map has 1 layers"),
        ({"base_objective": "question_answering"}, {}, "neither tokens nor classes"),
        (
            {"base_objective": "electra"},
            {},
            "electra is not distilled with a network with generator_discriminator",
        ),
        ({"base_objective": "plm", "cosine": 1.0}, {}, "queries"),
        ({"base_objective": "dae", "hidden": 1.0}, {}, "network of one stack"),
        (
            {
                "base_objective": "token_classification",
                "base": {"format": "bart"},
                "soft_at": "text",
            },
            {},
            "token_classification reads only the encoder's states",
        ),
        (
            {"base_objective": "lm", "base": {"mem_len": 8}},
            {"position": "relative"},
            "not distilled with mems",
        ),
    ],
)
def test_what_does_not_match_is_one_line(fields, student, words):
    with pytest.raises(UserError, match=words) as caught:
        Case(make(**fields), {**SIZES, **student}).init()
    assert "\n" not in str(caught.value)


@pytest.fixture(scope="module")
def teacher(tmp_path_factory):
    folder = tiny_runs.write_corpus(tmp_path_factory.mktemp("data"))
    workdir = tmp_path_factory.mktemp("teacher")
    config = tiny_config(folder, "mlm", **{"model.layers": 2, "model.heads": 4})
    return folder, tiny_runs.save_untrained(workdir, config)


def test_a_run_takes_its_teachers_network_and_vocabulary(teacher):
    folder, (source, state, _) = teacher
    keys = {"objective.name": "distill", "objective.teacher": str(source)}
    keys |= {"data.vocabulary": None, "data.sentinels": None}
    keys |= {"objective.hidden": 1.0, "objective.layer_map": [1]}

    def build(**changes):
        config = tiny_config(folder, "mlm", **{**keys, "model.layers": 1, **changes})
        return config, build_program(Config.of(config), jax.devices()[:1])

    config, program = build()
    assert config.data.vocabulary == str(source)
    keys_of_teacher = dict(config.objective.teacher_model)
    own = networks.from_config(keys_of_teacher)
    assert (own.layers, own.heads, config.model.heads) == (2, 4, 2)
    assert "heads" not in keys_of_teacher  # as by default
    found = program.constants.arrays["constants"]["teacher"]
    jax.tree.map(np.testing.assert_array_equal, found, state.params)
    starts = {"train.init_from": str(source), "train.init_layers": [1]}
    started, _ = build(**starts, **{"model.layers": None, "model.heads": None})
    assert started.model.layers == 1 and started.model.heads == 4
    student = random_state(program).params
    for layer in (0, 1):
        found, _ = restore_params(
            str(source), "", student, layers=[layer], **program.data.vocabulary_facts
        )
        own = state.params["stack"]["blocks"]["feedforward"]["in"]["kernel"][layer]
        kernel = found["stack"]["blocks"]["feedforward"]["in"]["kernel"]
        np.testing.assert_array_equal(kernel, own[None])
    with pytest.raises(UserError, match=r"has 2 layers, but model\.layers is 1"):
        build(**starts | {"train.init_layers": [0, 1]})
    with pytest.raises(UserError, match=r"names layer 2, but .* has layers 0 to 1"):
        restore_params(
            str(source), "", student, layers=[2], **program.data.vocabulary_facts
        )
    _, none = build(**{"objective.teacher": "", "data.vocabulary": str(source)})
    with pytest.raises(UserError, match=r"objective\.teacher is not set"):
        none.constants.arrays  # noqa: B018
    _, other = build(**{"data.vocabulary": "unigram", "data.vocabulary_size": 380})
    with pytest.raises(UserError, match="trained on another vocabulary"):
        other.constants.arrays  # noqa: B018
    with pytest.raises(UserError, match=r"objective\.teacher=nowhere does not exist"):
        build(**{"objective.teacher": "nowhere"})[1].constants.arrays  # noqa: B018


def test_a_published_teacher_without_a_vocabulary_needs_one():
    """Its ids are those of its own pieces, not of a vocabulary that is trained."""
    folder = Path(__file__).parents[1] / "goldens" / "huggingface" / "bert"
    keys = {"objective.name": "distill", "objective.teacher": f"hf:{folder}"}
    with pytest.raises(UserError, match=r"objective\.teacher: .*has no vocabulary"):
        load_config("experiments/mlm.py", keys)
    config = load_config("experiments/mlm.py", keys | {"data.vocabulary": "unigram"})
    assert dict(config.objective.teacher_model)["width"] == 16
