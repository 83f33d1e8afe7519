"""What a model writes is what Hugging Face's `generate` writes with the same keys."""

import json

import numpy as np
import pytest

from research.contract.errors import UserError
from research.generation.generate import make_generate
from research.generation.generation_config import generation_options
from research.generation.samplers import make_sampler
from research.use.inference.open_run import open_run
from tests.testing import huggingface_goldens

FILES = sorted(huggingface_goldens.FOLDER.glob("*/written.json"))
WRITERS = [file.parent.name for file in FILES]
SEARCHES = ("greedy", "repetition", "ngrams", "forced", "beam", "beam, first")
SEARCHES += ("beam, never", "beam, summary")
SHORT = {("gpt2", "beam, never"), ("llama", "forced"), ("llama", "beam, first")}
SHORT |= {("t5", "ngrams"), ("t5", "beam, summary"), ("bart", "beam, never")}


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    """Name -> the model, and what Hugging Face wrote."""
    made = {}

    def get(name):
        if name not in made:
            folder = tmp_path_factory.mktemp("writers")
            path = huggingface_goldens.copy_with_vocabulary(name, folder)
            (path / "source.spm").touch()  # without which Marian's is refused
            found = json.loads((path / "written.json").read_text())
            made[name] = open_run(f"hf:{path}"), found
        return made[name]

    return get


@pytest.mark.parametrize(
    ("name", "search"),
    [
        pytest.param(
            name, search, marks=() if (name, search) in SHORT else pytest.mark.long
        )
        for name in WRITERS
        for search in SEARCHES
    ],
)
def test_twenty_prompts_have_the_texts_of_hugging_face(opened, name, search):
    model, found = opened(name)
    expected, run = found["searches"][search], model.run
    vocab = run.vocabulary.vocab._replace(eos_id=found["end"])
    never = [3, *range(99, vocab.size)]
    given = expected["keys"] | {"max_new_tokens": 10, "suppress_tokens": never}
    if name == "bart":
        given |= {"forced_bos_token_id": vocab.bos_id}
    keys, unknown = generation_options(given, run.objective, vocab)
    assert not unknown
    generate = make_generate(
        run.objective, run.network, run.params, vocab, run.mesh, make_sampler(keys)
    )
    written = generate(found["prompts"])
    assert [texts[0].tokens for texts in written] == expected["texts"]
    if "scores" in expected:
        scores = [texts[0].score for texts in written]
        np.testing.assert_allclose(scores, expected["scores"], atol=2e-4)


def test_a_folders_generation_config_is_what_is_written_by(tmp_path, capsys):
    """Flags come before it; a key that is not read is named, a wrong one refused."""
    path = huggingface_goldens.copy_with_vocabulary("gpt2", tmp_path)
    file = path / "generation_config.json"
    file.write_text(json.dumps({"num_beams": 3, "max_new_tokens": 4, "guidance": 2}))
    model = open_run(f"hf:{path}")
    assert capsys.readouterr().err.endswith("config.json: guidance is not read\n")
    (written,) = model.generate(["the old"])
    assert len(written) == 3 and all(len(text.text.split()) <= 4 for text in written)
    assert len(model.generate(["the old"], method="greedy")[0]) == 1
    legal = {"early_stopping": 3}, {"temperature": 0}, {"suppress_tokens": 5}
    for wrong in (*legal, {"eos_token_id": "x"}):
        file.write_text(json.dumps(wrong))
        (key,) = wrong
        with pytest.raises(UserError, match=f"generation_config.json: .*{key[-4:]}"):
            open_run(f"hf:{path}")


def test_texts_end_as_the_folder_says(tmp_path, capsys):
    """At any of the ids of generation_config.json, else at those of config.json."""
    path = huggingface_goldens.copy_with_vocabulary("llama", tmp_path)
    file, own = path / "generation_config.json", path / "config.json"
    content = json.loads(own.read_text())
    eos = 3  # of the vocabulary

    def ends(of_config, **given):
        own.write_text(json.dumps(content | {"eos_token_id": of_config}))
        file.write_text(json.dumps(given))
        return open_run(f"hf:{path}").writing.get("ends")

    assert ends(7, eos_token_id=[eos, 7]) == (eos, 7)
    assert ends([9, 500], max_new_tokens=3) == (9,)
    assert ends(eos) is None and ends(None) is None
    file.unlink()
    own.write_text(json.dumps(content | {"eos_token_id": [eos, 8]}))
    model = open_run(f"hf:{path}")
    assert model.writing == {"ends": (eos, 8)} and not capsys.readouterr().err


def test_a_switch_without_a_field_is_named_where_it_is_on(opened):
    run = opened("gpt2")[0].run
    keys = {"renormalize_logits": True, "token_healing": False, "typical_p": 1.0}
    keys |= {"diversity_penalty": 0.0, "num_return_sequences": 1, "bad_words_ids": []}
    _, others = generation_options(keys, run.objective, run.vocabulary.vocab)
    assert others == ["renormalize_logits"]


def test_samples_of_beams_are_named(opened):
    run = opened("gpt2")[0].run
    for num_beams, named in ((3, ["num_beams"]), (1, [])):
        keys = {"do_sample": True, "num_beams": num_beams}
        found, others = generation_options(keys, run.objective, run.vocabulary.vocab)
        assert (found["method"], others) == ("sample", named)
