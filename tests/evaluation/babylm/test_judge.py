"""A judge reads of a text what fits, and one of an objective gives its own scores."""

import numpy as np
import pytest

from research.contract.errors import UserError
from research.evaluation.babylm.backends import Candidate
from research.evaluation.babylm.judge import OwnJudge, PipelineJudge
from research.evaluation.babylm.tokenizer import Tokenizer
from research.use.babylm.checkpoints import find_checkpoints, make_judge
from research.use.inference.open_run import open_run
from tests.testing import babylm_golden

MODEL = "models/tiny-gpt2"


@pytest.fixture(scope="module")
def golden(tmp_path_factory):
    return babylm_golden.write_golden(tmp_path_factory.mktemp("golden"))


@pytest.fixture(scope="module")
def model(golden):
    return open_run(f"hf:{golden / MODEL}", any_start=True)


def test_a_text_that_is_too_long_loses_the_tokens_after_its_first(golden, model):
    """GPT-2's " the" is one token, and the model reads 256."""
    judge = PipelineJudge(model, Tokenizer(golden / MODEL), "causal")
    texts = ["The" + " the" * count + " the" for count in (254, 300)]
    fits, cut = judge.log_probs([Candidate(text, " the") for text in texts])
    assert fits.num_tokens == cut.num_tokens == 1
    assert fits.total == pytest.approx(cut.total, abs=1e-5)
    words = (
        "a text of 302 tokens is scored from its token .* the model reads 256; train"
    )
    with pytest.raises(UserError, match=words):
        judge.log_probs([Candidate(texts[1], texts[1])])


def test_an_objective_is_judged_by_its_own_score(golden, model):
    """Of a completion behind what is before it, of a word behind a space."""
    checkpoints = find_checkpoints(f"hf:{golden / MODEL}")
    judge = make_judge(checkpoints, model, "", method="left_to_right")
    assert isinstance(judge, OwnJudge)
    assert judge.vocab_size == model.run.vocabulary.vocab.size
    pairs = [("The dog", "contains"), ("The box", "the")]
    candidates = [Candidate(" ".join(pair), f" {pair[1]}") for pair in pairs]
    contexts, words = zip(*pairs, strict=True)
    expected = model.score(words, contexts)
    log_probs = [score.log_prob for score in expected]
    found = judge.log_probs(candidates)
    assert [s.num_tokens for s in found] == [s.num_tokens for s in expected]
    np.testing.assert_allclose([s.total for s in found], log_probs, rtol=1e-5)
    surprisals = judge.word_surprisals(pairs)
    np.testing.assert_allclose(surprisals, np.negative(log_probs), rtol=1e-5)
    assert [*map(judge.num_pieces, words)] == [s.num_tokens for s in expected]
    zeros = {"embedding": 0 * model.run.params["token"]["embedding"]}
    other = judge.with_params(model.run.params | {"token": zeros})
    (score,) = other.log_probs(candidates[:1])
    uniform = -np.log(model.run.network.size) * score.num_tokens
    assert score.total == pytest.approx(uniform, rel=1e-5)
