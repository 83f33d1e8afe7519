"""Tokenizers and rows of the pipeline's backends, where special tokens are missing."""

import json

import pytest
import tokenizers

from research.contract.errors import UserError
from research.evaluation.babylm.backends import Candidate, Row, mntp
from research.evaluation.babylm.tokenizer import CONFIG, TOKENIZER, Tokenizer
from tests.testing.babylm_golden import golden


def tokenizer(folder, model, *, template=True, **config):
    """That of a golden model, with other keys of its config; None: without."""
    files = golden()["models"][model]["files"]
    state, own = json.loads(files[TOKENIZER]), json.loads(files[CONFIG])
    state["post_processor"] = state["post_processor"] if template else None
    (folder / TOKENIZER).write_text(json.dumps(state))
    (folder / CONFIG).write_text(json.dumps(own | config))
    return Tokenizer(folder)


def test_a_role_that_a_tokenizer_lacks_is_its_first_extra_token(tmp_path):
    extra = {"additional_special_tokens": ["</s>", "<pad>"]}
    own = tokenizer(tmp_path, "tiny-t5", mask_token=None, bos_token=None, **extra)
    assert own.special("mask") == own.special("bos") == own.special("eos") == 2
    own = tokenizer(tmp_path, "tiny-gpt2")
    with pytest.raises(UserError, match="has no mask token, which this backend reads"):
        own.special("mask")
    (tmp_path / TOKENIZER).unlink()
    with pytest.raises(UserError, match=r"has no tokenizer\.json; put the model's"):
        Tokenizer(tmp_path)


@pytest.mark.parametrize(("cleans_up", "text"), [(False, " ."), (True, ".")])
def test_a_space_before_punctuation_goes_where_the_config_says(
    tmp_path, cleans_up, text
):
    model = tokenizers.models.WordLevel({" .": 0}, unk_token=" .")
    tokenizers.Tokenizer(model).save(str(tmp_path / TOKENIZER))
    config = {"clean_up_tokenization_spaces": cleans_up}
    (tmp_path / CONFIG).write_text(json.dumps(config))
    assert Tokenizer(tmp_path).decode(0) == text


@pytest.mark.parametrize("has_start", [False, True])
def test_the_first_token_of_a_row_is_predicted_at_its_end(tmp_path, has_start):
    """By mntp, where no bos is added but there is one; else it is not scored."""
    names = {} if has_start else {"bos_token": None, "cls_token": None}
    own = tokenizer(tmp_path, "tiny-mntp", template=False, **names)
    text = "The dog"
    ids, mask = own.encode(text).ids, own.special("mask")
    rows = [*mntp(own, Candidate(text, text))]
    assert len(rows) == len(ids) - (not has_start)
    if has_start:
        assert rows[0] == Row([mask, *ids[1:]], [len(ids) - 1], [ids[0]])
    assert rows[-1] == Row([*ids[:-1], mask], [len(ids) - 2], [ids[-1]])
