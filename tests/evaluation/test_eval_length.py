"""Evaluations of a language model with mems: rows, mems and limits of their own."""

import random

import jax
import numpy as np
import pytest

from launch.config import load_config
from research import networks
from research.config.config import Config
from research.contract.errors import UserError
from research.evaluation.evaluate import evaluate
from research.objectives.losses.cross_entropy import masked_cross_entropy
from research.program.setup import build_program, make_eval_zeros
from tests.testing.tiny_runs import WORDS, random_state

LENGTH, MEM_LEN = 12, 8
ALL = 120
"""More positions than the evaluation's text has tokens."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder, draw = tmp_path_factory.mktemp("mems"), random.Random(0)
    for split, num_lines in (("train", 40), ("valid", 11)):
        lines = (" ".join(draw.choices(WORDS, k=8)) for _ in range(num_lines))
        (folder / f"{split}.txt").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture(scope="module")
def make_program(folder):
    def make(model=None, **objective):
        keys = {f"data.{s}": str(folder / f"{s}.txt") for s in ("train", "valid")}
        keys |= {"data.cache_dir": str(folder / "cache"), "data.separator": "lines"}
        keys |= {"data.vocabulary": "words", "data.vocabulary_size": 15}
        keys |= {"data.sentinels": 0, "data.length": LENGTH, "train.batch": 1}
        keys |= {"model.layers": 2, "model.width": 16, "model.heads": 2}
        keys |= {"model.feedforward": 16, "model.position": "relative"}
        own = {"mem_len": MEM_LEN} | objective
        keys |= {f"objective.{key}": value for key, value in own.items()}
        if model:
            keys = {k: v for k, v in keys.items() if "model" not in k} | model
        config = load_config("experiments/lm.py", keys)
        return build_program(Config.of(config), jax.devices()[:1])

    return make


def params_of(program):
    """Large ones, so that a loss depends on far tokens, too."""
    return jax.tree.map(lambda leaf: 4 * leaf, random_state(program).params)


def loss_of(program):
    zeros = make_eval_zeros(program)()
    return evaluate(program, params_of(program), zeros).metrics["lm"]


LSTM = {"model.network": "lstm", "model.layers": 1, "model.width": 16}


@pytest.mark.parametrize(
    "fields", [{"activation_penalty": 2.0, "mem_len": 1}, {"sampled_words": 4}]
)
def test_an_evaluation_has_terms_of_its_own(make_program, fields):
    """Penalties are of training alone, and sampled words give no accuracy there."""
    program = make_program(LSTM, **{"mem_len": 0} | fields)
    zeros = make_eval_zeros(program)()
    assert zeros[0].keys() == {"lm", "accuracy"}
    trained = program.abstract_state.sums.keys() - {"gradient_norm"}
    assert trained != zeros[0].keys()
    assert evaluate(program, params_of(program), zeros).metrics.keys() >= {"lm"}


def eval_tokens(program):
    return [batch["token"] for batch in program.data.eval.evaluation()]


def test_training_is_the_same_and_rows_of_an_evaluation_have_another_length(
    make_program,
):
    plain, other = make_program(), make_program(eval_length=5, eval_clamp_len=4)
    for one, same in zip(
        plain.data.train.batches(0, None, 4),
        other.data.train.batches(0, None, 4),
        strict=True,
    ):
        jax.tree.map(np.testing.assert_array_equal, one, same)
    steps = [p.step.lower(*p.step_shapes).as_text() for p in (plain, other)]
    assert steps[0] == steps[1]
    assert {token.shape for token in eval_tokens(plain)} == {(1, LENGTH)}
    assert {token.shape for token in eval_tokens(other)} == {(1, 5)}
    texts = [np.concatenate(eval_tokens(p), axis=1)[0] for p in (plain, other)]
    assert len({*texts[0].tolist()}) > 5
    np.testing.assert_array_equal(*(text[:90] for text in texts))


def test_with_mems_of_the_whole_text_it_equals_one_row(make_program):
    """The longer the mems, the more of a text is the same as read at once."""
    program = make_program(eval_length=5, eval_mem_len=ALL)
    params = params_of(program)
    rows = list(program.data.eval.evaluation())
    whole = {
        name: np.concatenate([batch[name] for batch in rows], axis=1)
        for name in ("token", "segment", "token_type", "target", "weight")
    }
    length = whole["token"].shape[1]
    assert length < ALL
    position = np.arange(length, dtype=np.int32)[None]
    whole |= dict.fromkeys(("position", "rank", "reach"), position)

    def score(net):
        readout = net.readout(net.states(whole))
        return masked_cross_entropy("lm", readout, whole)["lm"]

    term = networks.apply(program.network, params, score)
    expected = float(term.total / term.weight)
    np.testing.assert_allclose(loss_of(program), expected, rtol=1e-5)
    assert abs(loss_of(make_program(eval_length=5)) - expected) > 1e-3


def test_with_the_same_length_a_loss_does_not_depend_on_the_rows(make_program):
    """Each token is predicted from as many before it, wherever a row begins."""
    limits = {"eval_same_length": True, "eval_clamp_len": 5}
    one, other, longer = (
        loss_of(make_program(eval_length=length, **limits | more))
        for length, more in ((5, {}), (0, {}), (5, {"eval_mem_len": 16}))
    )
    np.testing.assert_allclose(one, other, rtol=1e-5)
    assert abs(longer - one) > 1e-3
    apart = [loss_of(make_program(eval_length=length)) for length in (5, 0)]
    assert abs(apart[0] - apart[1]) > 1e-4


def test_keys_of_an_evaluation_that_mean_nothing_are_refused(folder, make_program):
    with pytest.raises(UserError, match="eval_length needs mem_len above 0"):
        make_program(mem_len=0, eval_length=5)
    with pytest.raises(UserError, match="eval_length must be 0 or at least 2, not 1"):
        make_program(eval_length=1)
    with pytest.raises(UserError, match="eval_same_length needs mems of at least 2"):
        make_program(mem_len=1, eval_same_length=True)
    with pytest.raises(UserError, match="lstm has no limits of distances to mems"):
        keys = {"objective.mem_len": 4, "objective.eval_clamp_len": 3}
        config = load_config("experiments/lstm.py", keys | {"data.length": 16})
        build_program(Config.of(config), jax.devices()[:1])
