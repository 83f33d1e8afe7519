"""Self-speculative decoding writes what greedy decoding writes, in fewer passes."""

import jax
import numpy as np
import pytest

from research.contract.errors import UserError
from research.generation.generate import make_generate
from research.generation.samplers import make_sampler, speculative
from tests.testing.objective_cases import VOCAB

PROMPTS = [[60, 61, 70], [50], [62, 63, 64, 65, 90]]


@pytest.mark.parametrize(
    ("drafts", "heads"),
    [
        ("mixed", "parallel"),
        ("mixed", "sequential"),
        ("wrong", "parallel"),
        ("right", "parallel"),
        pytest.param("wrong", "sequential", marks=pytest.mark.long),
        pytest.param("right", "sequential", marks=pytest.mark.long),
    ],
)
def test_the_text_is_that_of_greedy(heads, drafts, make_model, mesh, monkeypatch):
    """Drafts of random blocks are wrong, right where all tokens are equal, and right in
    some rows where few tokens occur."""
    fields = {"num_future": 2, "heads": heads}
    model = make_model("multi_token", fields, output_head="bias")
    likely = {"wrong": [], "right": [77], "mixed": [77, 78]}[drafts]
    model[2]["output"]["bias"][likely] = 99.0
    passes = []
    body = jax.lax.while_loop

    def counted(goes_on, step, carry):
        def run(carry):
            jax.debug.callback(lambda n: passes.append(int(n)), carry.count)
            return step(carry)

        return body(goes_on, run, carry)

    def write(method):
        sampler = make_sampler(method=method, max_tokens=12)
        return make_generate(*model, VOCAB, mesh, sampler)(PROMPTS)

    greedy = write("greedy")
    monkeypatch.setattr(speculative.lax, "while_loop", counted)
    for (one,), (other,) in zip(write("speculative"), greedy, strict=True):
        assert (one.tokens, one.ended) == (other.tokens, other.ended)
        np.testing.assert_allclose(one.log_prob, other.log_prob, rtol=1e-4)
    least, most = {"wrong": (7, 12), "right": (4, 4), "mixed": (5, 11)}[drafts]
    assert least <= len(passes) <= most


def test_a_model_without_drafts_is_one_line(make_model, mesh):
    sampler = make_sampler(method="speculative")
    for name, fields in (("lm", {}), ("multi_token", {"heads": "none"})):
        with pytest.raises(
            UserError, match="of methods beam, greedy, sample, not spec"
        ):
            make_generate(*make_model(name, fields), VOCAB, mesh, sampler)
