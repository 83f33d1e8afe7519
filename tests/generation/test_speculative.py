"""Self-speculative decoding writes what greedy decoding writes, in fewer passes."""

import jax
import numpy as np
import pytest

from research.contract.errors import UserError
from research.generation.generate import make_generate
from research.generation.samplers import make_sampler, speculative
from tests.testing.objective_cases import VOCAB

PROMPTS = [[60, 61, 70], [50], [62, 63, 64, 65, 90]]


@pytest.mark.parametrize("heads", ["parallel", "sequential"])
@pytest.mark.parametrize("drafts_are_right", [False, True])
def test_the_text_is_that_of_greedy(
    heads, drafts_are_right, make_model, mesh, monkeypatch
):
    """Those of random blocks are wrong; where all tokens are equal they are right."""
    fields = {"num_future": 2, "heads": heads}
    model = make_model("multi_token", fields, output_head="bias")
    if drafts_are_right:
        model[2]["output"]["bias"][77] = 99.0
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
    assert len(passes) == 4 if drafts_are_right else len(passes) > 6


def test_a_model_without_drafts_is_one_line(make_model, mesh):
    sampler = make_sampler(method="speculative")
    for name, fields in (("lm", {}), ("multi_token", {"heads": "none"})):
        with pytest.raises(
            UserError, match="of methods beam, greedy, sample, not spec"
        ):
            make_generate(*make_model(name, fields), VOCAB, mesh, sampler)
