"""Guards of distillation: what is compared with the teacher, and where."""

# B batch, L length

import ast
import shlex
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np

from launch.config import load_config
from research.data.order.permutation import permute
from research.objectives.taught.distillation import class_divergence
from research.optimize.schedule import make_schedule
from tests.fidelity import table
from tests.fidelity.guards.networks import Small, by_path, small
from tests.fidelity.guards.registry import guard, phrase
from tests.fidelity.our_batches import batch_of
from tests.fidelity.table import System


def terms_of(own: Small, dropout: bool = False, **arrays: Any) -> dict[str, Any]:
    """The terms of the loss, with random parameters and other arrays in the batch."""
    batch = own.batch | arrays
    score = lambda net: own.objective.loss(net, batch, None)[0]  # noqa: E731
    return own.run(score, own.randomized(), dropout)


def padded(own: Small) -> np.ndarray:
    """[B, L]: the segments of the batch, of which row 0 ends after five positions."""
    segment = np.array(own.batch["segment"])
    segment[0, 5:] = 0
    return segment


@guard("drawing of masked tokens")
def drawing(system: System):
    batch, *_ = batch_of(system)
    count = {*batch["weight"].sum(axis=1).tolist()}
    return phrase({"of each row": len(count) == 1, "of a batch": len(count) > 1})


@guard("positions of soft and cosine")
def text_positions(system: System):
    own = small(system.name)
    segment = padded(own)
    terms = terms_of(own, segment=jnp.asarray(segment))
    equal = all(terms[n].weight == (segment > 0).sum() for n in ("soft", "cosine"))
    return phrase({"all but padding, masked or not": equal})


@guard("attention of padding")
def attention_of_padding(system: System):
    own = small(system.name)
    segment = padded(own)
    terms = terms_of(own, segment=jnp.asarray(segment))
    pairs = ((segment > 0).sum(axis=1) ** 2).sum()
    return phrase(
        {
            "left out": terms["attention"].weight == pairs / segment.shape[1],
            "counted": terms["attention"].weight == segment.size,
        }
    )


@guard("states of padding")
def states_of_padding(system: System):
    own = small(system.name)
    segment = padded(own)
    term = terms_of(own, segment=jnp.asarray(segment))["hidden"]
    return phrase(
        {
            "left out": term.weight == (segment > 0).sum(),
            "counted": term.weight == segment.size,
        }
    )


def stages_on_a_task(system: System) -> list[Any]:
    """The configs of the docstring's last two commands."""
    path = table.ROOT / "experiments" / f"{system.name}.py"
    text = ast.get_docstring(ast.parse(path.read_text())).replace("\\\n", " ")
    lines = [line for line in text.splitlines() if "palimpsest train" in line]
    configs = []
    for line in lines[-2:]:
        flags = dict(word[2:].split("=", 1) for word in shlex.split(line)[2:])
        spec = table.ROOT / flags.pop("config")
        values = {k.removeprefix("config."): v for k, v in flags.items()}
        values.pop("workdir")
        with mock.patch("launch.config.check_needed"):  # the runs are not here
            configs.append(load_config(str(spec), values))
    return configs


@guard("rates of the second stage")
def second_stage_rates(system: System):
    config, _ = stages_on_a_task(system)
    rate = make_schedule(config.optimizer, config.train.steps)
    flat = np.isclose([rate(0), rate(config.train.steps - 1)], 5e-5).all()
    return phrase({"5e-5 in all steps": flat})


@guard("rates of the third stage")
def third_stage_rates(system: System):
    _, config = stages_on_a_task(system)
    steps = config.train.steps
    rate = make_schedule(config.optimizer, steps)
    found = [float(rate(step)) for step in (0, steps // 10, steps)]
    words = "up to 3e-5 for a tenth of the steps, then down to 0"
    return phrase({words: np.allclose(found, [0, 3e-5, 0], atol=1e-9)})


@guard("loss of the third stage")
def third_stage_loss(system: System):
    """Of the golden logits: the gradient of the soft term, whatever its constant."""
    _, config = stages_on_a_task(system)
    objective = config.objective
    other, own = jnp.array([[2.0, -2.0]]), jnp.array([[1.0, -1.0]])

    def ours(logits):
        term = class_divergence(logits, other, jnp.ones(1), objective.temperature)
        return objective.soft * term.total / term.weight

    def released(logits):
        return -(jax.nn.softmax(other) * jax.nn.log_softmax(logits)).mean()

    same = np.allclose(jax.grad(ours)(own), jax.grad(released)(own))
    alone = not (objective.hard or objective.hidden or objective.attention)
    words = "cross-entropy with the teacher's classes, a mean over rows and classes"
    return phrase({words: same and alone})


@guard("steps of the stages on a task")
def stage_steps(system: System):
    steps = {config.train.steps for config in stages_on_a_task(system)}
    (num,) = steps
    return f"{num} each, as many as experiments/finetune.py has"


@guard("order of texts")
def order_of_texts(system: System):
    """Of a hundred rows in two epochs."""
    first, second = (permute(np.arange(100), 100, seed=0, epoch=n) for n in (0, 1))
    return phrase(
        {
            "of the file, in all passes": (first == np.arange(100)).all(),
            "another in each pass": (first != second).any(),
        }
    )


@guard("dropout of the teacher")
def teacher_dropout(system: System):
    """Without dropout of the student's own."""
    own = small(system.name).with_options(dropout=0.0)
    one, two = (terms_of(own, dropout) for dropout in (False, True))
    assert dict(own.objective.teacher_model)["dropout"] > 0
    same = all(one[name].total == two[name].total for name in one)
    return phrase({"none": same, "that of its training": not same})


@guard("projection of states")
def projection(system: System):
    params = by_path(small(system.name).params)
    own = {n.removeprefix("head_hidden/") for n in params if "head_hidden" in n}
    one = own == {"out/kernel", "out/bias"}
    return phrase({"one dense layer with a bias, for all states": one})


@guard("chosen tokens of a row")
def chosen_tokens(system: System):
    batch, *_ = batch_of(system)
    (count,) = {*batch["weight"][:, :-1].sum(axis=1).tolist()}
    return count


@guard("weight of a short row")
def weight_of_a_row(system: System):
    own = small(system.name)
    segment = padded(own)
    (term,) = terms_of(own, segment=jnp.asarray(segment)).values()
    return phrase(
        {
            "by its positions": term.weight == (segment > 0).sum(),
            "that of a full row": term.weight == len(segment),
        }
    )


@guard("masks of a row")
def masks(system: System):
    batch, *_ = batch_of(system)
    used = batch["weight"] > 0
    here = np.take_along_axis(batch["token"], batch["scored"], axis=1)
    return int((here != batch["target"])[used].sum())


@guard("rows of the stages on a task")
def stage_rows(system: System):
    configs = stages_on_a_task(system)
    ((batch, length),) = {(each.train.batch, each.data.length) for each in configs}
    return f"{batch} of {length} tokens"


@guard("weight decay of the stages on a task")
def stage_weight_decay(system: System):
    rules = {each.optimizer.rule for each in stages_on_a_task(system)}
    (rule,) = rules
    return rule.weight_decay
