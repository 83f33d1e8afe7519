"""Completions are those that `generate` writes, and compile nothing when asked."""

import numpy as np
import pytest

from research.contract.errors import UserError
from research.generation.generate import Text
from research.use.inference import completions
from research.use.inference.completions import (
    Completed,
    Completer,
    CompletionRequest,
    _Row,
)
from research.use.inference.open_run import open_run
from tests.testing import huggingface_goldens
from tests.testing.tiny_runs import save_untrained, tiny_config, write_corpus

PROMPTS = ["old river", "the stone reads a small", "a"]


def open_golden(name, folder):
    return open_run(f"hf:{huggingface_goldens.copy_with_vocabulary(name, folder)}")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A run of GPT that has not begun."""
    folder = write_corpus(tmp_path_factory.mktemp("completions"))
    config = tiny_config(folder, "gpt", **{"model.max_length": 32})
    save_untrained(folder / "run", config)
    return open_run(folder / "run")


@pytest.fixture(scope="module")
def completer(model):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(completions, "PROMPT_WIDTHS", (4, 12))
        patch.setattr(completions, "NEW_TOKENS", (3, 8))
        made = Completer(model)
    made.warm_up()
    return made


WAYS = (
    {"temperature": 0.0},
    {"temperature": 0.7, "seed": 5},
    {"top_p": 0.5, "seed": 6},
    {"seed": 5},
)


def test_each_text_has_its_own_way_and_nothing_is_compiled(model, completer, compiled):
    asked = [
        CompletionRequest(prompt, count, choice=number, **way)
        for count in (8, 2)
        for way in WAYS
        for number, prompt in enumerate(PROMPTS)
    ]
    compiled.clear()
    together = completer.complete(asked)
    assert not compiled
    expected = []
    for way in WAYS:
        method = "sample" if way.get("temperature", 1) else "greedy"
        options = {name: value for name, value in way.items() if value}
        texts = model.generate(PROMPTS, method=method, max_tokens=8, **options)
        expected += [text for (text,) in texts]
    half = len(expected)
    for found, cut, text in zip(
        together[:half], together[half:], expected, strict=True
    ):
        assert found.text == text.text and text.text.startswith(cut.text)
        assert found.finish_reason == ("stop" if text.ended else "length")
        assert 0 < cut.new_tokens <= 2 and cut.new_tokens <= found.new_tokens <= 8
    assert len({text.text for text in expected}) > len(PROMPTS)
    assert [completer.complete([each])[0] for each in asked[:5]] == together[:5]


def test_choices_differ_and_stop_cuts(completer):
    choices = [CompletionRequest("old", 8, choice=n, seed=1) for n in range(4)]
    texts = [each.text for each in completer.complete(choices)]
    assert len(set(texts)) > 1
    whole = completer.complete([CompletionRequest("old", 8, 0.0)])[0]
    stop = whole.text[-2:]
    cut = completer.complete([CompletionRequest("old", 8, 0.0, stop=("§", stop))])[0]
    assert cut.text == whole.text[: whole.text.index(stop)] and cut.text
    assert cut.finish_reason == "stop"
    assert whole.prompt_tokens == len(completer._vocabulary.encode("old")[0])


def test_tokens_behind_a_stop_are_not_counted(completer):
    """The stop that is complete first ends the text, whichever begins first."""
    vocabulary = completer._vocabulary
    texts = "old", "a small river by", "a small"
    prompt, new, start = (vocabulary.encode(text)[0].tolist() for text in texts)
    text = Text(new, 0.0, 0.0, ended=True)

    def complete(*stop):
        row = _Row(CompletionRequest("old", 20, stop=stop), prompt, (4, 8))
        return completer._completed(row, text)

    whole = complete("stone")
    assert (whole.text, whole.new_tokens) == (" a small river by", len(new) + 1)
    for stop in (("mall",), ("a small river", "mall"), ("by", "mall")):
        expected = Completed(" a s", "stop", len(prompt), len(start), "old")
        assert complete(*stop) == expected
    assert complete("y").new_tokens == len(new)


def test_log_probs_are_those_of_scores_and_of_what_is_written(model, completer):
    prompt = model.run.vocabulary.encode("old river")[0].tolist()
    bos = model.run.vocabulary.vocab.bos_id
    asked = [
        CompletionRequest(spelled, 3, 0.0, log_probs=has)
        for has in (True, False)
        for spelled in ("old river", tuple(prompt), (bos, *prompt))
    ]
    found = completer.complete(asked)
    assert [each.text for each in found] == [found[0].text] * 6
    assert [each.log_probs is None for each in found] == [False] * 3 + [True] * 3
    assert found[2].log_probs.text[0] == "" and np.isnan(found[2].log_probs.log_p[0])
    for number, each in enumerate(found[:3]):
        scores, count = each.log_probs, len(prompt) + (number == 2)
        (expected,) = model.score(["old river"])
        assert np.nansum(scores.log_p[:count]) == pytest.approx(
            expected.log_prob, abs=1e-4
        )
        assert "".join(scores.text).strip() == (each.prompt + each.text).strip()
        greedy = scores.log_p[count:]
        np.testing.assert_array_equal(greedy, scores.best_log_p[count:, 0])
        assert len(greedy) == each.new_tokens


def test_what_does_not_fit_is_the_error_of_its_request(completer):
    short, long, many = completer.complete(
        [
            CompletionRequest("old", 8),
            CompletionRequest("old river " * 9, 8),
            CompletionRequest("old", 9),
        ]
    )
    assert short.new_tokens
    assert isinstance(long, UserError) and "at most 12 tokens" in str(long)
    assert isinstance(many, UserError) and "max_tokens must be at most 8, not 9" in str(
        many
    )


def test_a_model_that_continues_no_prompts_is_refused(tmp_path):
    with pytest.raises(UserError, match="does not continue its prompts"):
        Completer(open_golden("t5", tmp_path))


def test_a_masked_model_completes_by_masks(tmp_path):
    bert = open_golden("bert", tmp_path)
    assert Completer(bert)._method == "ancestral"
    with pytest.raises(UserError, match=r"method greedy cannot .*; ancestral, confi"):
        Completer(bert, "greedy")
    completer = Completer(bert, "confidence")
    asked = [CompletionRequest(text, 3) for text in ("the old", "the [MASK]")]
    found, refused = completer.complete(asked)
    assert (found.new_tokens, found.finish_reason) == (3, "length")
    assert "a prompt must have no masks" in str(refused)


def test_shapes_leave_room_in_a_short_network(model):
    made = Completer(model)
    positions = model.run.network.options.max_positions
    assert {sum(shape) for shape in made._generate} <= {*range(positions + 1)}
    assert max(sum(shape) for shape in made._generate) == positions
    assert np.prod([len(made._widths), len(made._new_tokens)]) == len(made._generate)
