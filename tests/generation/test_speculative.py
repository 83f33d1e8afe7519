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
    ("drafts", "heads", "number"),
    [
        ("mixed", "parallel", 0),
        ("mixed", "sequential", 0),
        ("wrong", "parallel", 0),
        ("right", "parallel", 0),
        ("right", "sequential", 1),
        pytest.param("right", "parallel", 1, marks=pytest.mark.long),
        pytest.param("wrong", "sequential", 0, marks=pytest.mark.long),
        pytest.param("right", "sequential", 0, marks=pytest.mark.long),
    ],
)
def test_the_text_is_that_of_greedy(
    heads, drafts, number, make_model, mesh, monkeypatch
):
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

    def write(method, **options):
        sampler = make_sampler(method=method, max_tokens=12, **options)
        return make_generate(*model, VOCAB, mesh, sampler)(PROMPTS)

    greedy = write("greedy")
    monkeypatch.setattr(speculative.lax, "while_loop", counted)
    written = write("speculative", drafts=number)
    for (one,), (other,) in zip(written, greedy, strict=True):
        assert (one.tokens, one.ended) == (other.tokens, other.ended)
        np.testing.assert_allclose(one.log_prob, other.log_prob, rtol=1e-4)
    fewest = -(-12 // (1 + (number or 2)))
    least, most = {"wrong": (7, 12), "mixed": (5, 11)}.get(drafts, (fewest, fewest))
    assert least <= len(passes) <= most


def test_more_drafts_than_the_model_has_are_one_line(make_model, mesh):
    model = make_model("multi_token", {"num_future": 2})
    sampler = make_sampler(method="speculative", drafts=3)
    with pytest.raises(UserError, match=r"drafts is 3.*give 1 to 2, or 0 for all"):
        make_generate(*model, VOCAB, mesh, sampler)


def test_a_model_without_drafts_is_one_line(make_model, mesh):
    sampler = make_sampler(method="speculative")
    for name, fields in (("lm", {}), ("multi_token", {"heads": "none"})):
        with pytest.raises(UserError, match=r"of methods beam.*sample.*, not spec"):
            make_generate(*make_model(name, fields), VOCAB, mesh, sampler)
