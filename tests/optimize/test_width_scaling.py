"""muP: what a few steps change is as large at each width, and nothing at the base."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from launch.config import load_config
from launch.measure.placeholder_vocab import placeholder_vocab
from research import networks
from research.config.config import Config
from research.contract.errors import UserError
from research.optimize.width_scaling import check_scaling, scale_rates
from research.program.setup import build_program, zero_batch
from tests.testing.model_options import model_options

WIDTHS, STEPS = (32, 64, 128), 4


def config_of(width, base_width, **keys):
    return load_config(
        "experiments/lm.py",
        {
            **{
                "model.width": width,
                "model.layers": 2,
                "model.heads": 2,
                "model.feedforward": 2 * width,
            },
            **{"model.tie_embeddings": False, "optimizer.base_width": base_width},
            **{"data.length": 16, "train.batch": 4, "data.vocabulary_size": 256},
            **{"optimizer.warmup_steps": 0, "optimizer.schedule": "constant"},
            **{"optimizer.learning_rate": 0.01, "mesh.data": 1},
            **keys,
        },
    )


def changes(width, base_width):
    """Mean absolute changes of states and of logits by a few steps on one batch."""
    config = Config.of(config_of(width, base_width))
    program = build_program(
        config, devices=jax.devices()[:1], vocab=placeholder_vocab(config_of(width, 0))
    )
    spec = program.objective.batch_spec(16)
    batch = jax.tree.map(np.asarray, zero_batch(spec, 4))
    token = np.random.default_rng(0).integers(10, 200, (4, 17)).astype(np.int32)
    batch |= {"token": token[:, :-1], "target": token[:, 1:]}
    place = np.broadcast_to(np.arange(16, dtype=np.int32), (4, 16))
    batch |= {name: place for name in ("position", "rank", "reach")}
    batch |= {"segment": place * 0 + 1, "weight": np.ones((4, 16), np.float32)}
    batch["example"] = np.arange(4, dtype=np.int32)

    def outputs(net):
        found = net.outputs(batch, with_inputs=True)
        feature, table, _ = net.readout(found.states)[:3]
        return found.inputs[-1], feature @ table.T

    run = jax.jit(lambda params: networks.apply(program.network, params, outputs))
    state = program.init(jax.random.key(0))
    before = run(state.params)
    key = jax.random.key_data(jax.random.key(1))
    for _ in range(STEPS):
        state = program.step(state, batch | {"constants": {}}, key)
    after = run(state.params)
    return [float(jnp.abs(a - b).mean()) for a, b in zip(after, before, strict=True)]


def test_a_few_steps_change_states_and_logits_as_much_at_each_width():
    """The coordinate check of Yang et al. 2022, figure 5, which fails without."""
    scaled = np.array([changes(width, WIDTHS[0]) for width in WIDTHS])
    plain = np.array([changes(width, 0) for width in (WIDTHS[0], WIDTHS[-1])])
    np.testing.assert_array_equal(scaled[0], plain[0])  # nothing changes at the base
    assert (scaled.max(axis=0) < 1.3 * scaled.min(axis=0)).all(), scaled
    assert (plain[1] > 4 * plain[0]).all(), plain


def test_queries_have_their_factor_where_heads_become_wider():
    params = {
        "stack": {"blocks": {"attention": {"query": {"kernel": 8.0, "bias": 8.0}}}},
        "output": {"embedding": 8.0},
        "token": {"embedding": 8.0},
    }
    for head_width, kernel, bias in ((0, 1.0, 4.0), (16, 2.0, 8.0)):
        model = model_options(width=128, heads=4, head_width=head_width)
        updates = scale_rates(model, 32)(params, None)
        query = updates["stack"]["blocks"]["attention"]["query"]
        assert (query["kernel"], query["bias"]) == pytest.approx((kernel, bias))
        assert (updates["output"]["embedding"], updates["token"]["embedding"]) == (2, 8)


@pytest.mark.parametrize(
    ("rule", "keys", "words"),
    [
        ("adamw", {}, r"model\.tie_embeddings False, got True"),
        (
            "adamw",
            {"init": "t5", "tie_embeddings": False},
            "model.init normal or .* t5",
        ),
        ("muon", {"tie_embeddings": False}, "optimizer.name adam or .*, got muon"),
    ],
)
def test_other_networks_and_rules_are_refused(rule, keys, words):
    with pytest.raises(UserError, match=words):
        check_scaling(rule, model_options(**keys))
