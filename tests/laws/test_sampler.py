"""The contract of every sampler; modules are found by listing the folder."""

import argparse
import dataclasses
import re

import numpy as np
import pytest

from launch.commands import generate
from research import objectives
from research.contract.errors import UserError
from research.generation.generate import find_writer, make_generate
from research.generation.samplers import FOLDER, make_sampler, options
from research.generation.samplers.sample import Sampling
from tests.testing.objective_cases import VOCAB
from tests.testing.random_models import mesh_of, random_model

SAMPLERS = FOLDER.names()
PROMPTS = [[60, 61, 70], [50], [62, 63, 64, 65, 90], [71, 72]]
MOST = 6


def objective_of(sampler):
    """The name of the first objective that has learned to write in its order."""
    for name in ("lm", *objectives.names()):
        objective = objectives.make_objective(name)
        if objective.prompt is not None and sampler.writes(objective):
            return name
    raise AssertionError(f"no objective writes in the order {sampler.order}")


def make_write(name, *, mesh=None, batch=32, fields=None, **chosen):
    """A function of prompts, and the sampler."""
    sampler = make_sampler(method=name, **{"max_tokens": MOST} | chosen)
    model = random_model(objective_of(sampler), **fields or {})
    mesh = mesh or mesh_of()
    return make_generate(*model, VOCAB, mesh, sampler, batch=batch)


@pytest.fixture(scope="module", params=SAMPLERS)
def written(request):
    """A sampler, a function of prompts, and the texts of PROMPTS."""
    write = make_write(request.param)
    return request.param, write, write(PROMPTS)


def test_texts_have_writable_tokens_and_end_once(written):
    _, _, found = written
    never = {VOCAB.pad_id, VOCAB.bos_id, VOCAB.mask_id, VOCAB.eos_id}
    for texts in found:
        assert texts
        for text in texts:
            assert not never & {*text.tokens}
            assert len(text.tokens) + text.ended <= MOST
            assert text.ended or len(text.tokens) == MOST
            assert text.log_prob <= 0
        scores = [(text.ended, text.score) for text in texts]
        assert scores == sorted(scores, reverse=True)


def test_a_text_is_a_function_of_its_prompt_its_number_and_the_options(written):
    """Neither of the other prompts nor of the batch."""
    name, write, found = written
    order = [2, 0, 3]
    some = write([PROMPTS[at] for at in order], numbers=order)
    assert [*map(tokens, some)] == [tokens(found[at]) for at in order]
    same = write([PROMPTS[0]] * 8)
    is_random = "seed" in fields_of(name)
    assert (len({str(tokens(texts)) for texts in same}) > 1) == is_random
    if is_random:
        other = make_write(name, seed=1)(PROMPTS)
        assert [*map(tokens, other)] != [*map(tokens, found)]


def tokens(texts):
    return [text.tokens for text in texts]


def fields_of(name):
    cls = FOLDER.part_class(name, "method")
    return {field.name: field for field in dataclasses.fields(cls)}


SHORT = ("ancestral", "beam")
"""Of masks in any order, and of several texts a row; the others are long."""


@pytest.mark.parametrize(
    "written",
    [pytest.param(n, marks=[pytest.mark.long] * (n not in SHORT)) for n in SAMPLERS],
    indirect=True,
)
def test_a_mesh_changes_no_text(written):
    name, _, found = written
    wide = mesh_of(data=2, fsdp=2, tensor=2)
    sharded = make_write(name, mesh=wide, batch=8)(PROMPTS)
    for one, other in zip(sharded, found, strict=True):
        assert tokens(one) == tokens(other)
        scores = [[text.score for text in texts] for texts in (one, other)]
        np.testing.assert_allclose(*scores, rtol=1e-4)


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_sampler_is_its_options(name):
    """It is a value, with legal defaults; a flag has one type and words of help."""
    sampler = make_sampler(method=name)
    assert sampler == make_sampler({"method": name}) and hash(sampler) is not None
    assert sampler.name == name
    parser = generate.parser()
    flags = {action.dest: action for action in parser._actions}
    assert not {"workdir", "step", "prompt", "texts", "to", "batch"} & {*options()}
    for field in dataclasses.fields(sampler):
        assert getattr(sampler, field.name) == field.default
        if "help" in field.metadata:
            assert flags[field.name].type is type(field.default)
            assert field.metadata["help"] in flags[field.name].help
    args = argparse.Namespace(**vars(parser.parse_args(["--workdir=x"])))
    args.method = name
    assert generate._sampler(args) == sampler


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_sampler_that_serves_writes_each_row_by_its_own_options(name):
    """As a server's completions ask; temperature 0 is the most probable text."""
    write, ways = make_write(name), [(1.0, 0.5, 5), (0.7, 1.0, 6)]

    def by_row(*ways):
        temperature, top_p, seed = zip(*ways, strict=True)
        floats = (np.array(each, np.float32) for each in (temperature, top_p))
        return write(PROMPTS[:2], Sampling(*floats, np.array(seed, np.int32)))

    if not make_sampler(method=name).serves:
        with pytest.raises(AssertionError, match=f"{name} reads no sampling"):
            by_row(*ways)
        return
    found = [tokens(texts) for texts in by_row(*ways)]
    for row, (temperature, top_p, seed) in enumerate(ways):
        options = {"temperature": temperature, "top_p": top_p, "seed": seed}
        assert tokens(make_write(name, **options)(PROMPTS[:2])[row]) == found[row]
    if make_sampler(method=name).order == "left_to_right":
        zero = [tokens(texts) for texts in by_row((0.0, 1.0, 5), (0.0, 0.5, 6))]
        assert zero == [tokens(texts) for texts in make_write("greedy")(PROMPTS[:2])]


@pytest.mark.parametrize("name", SAMPLERS)
def test_what_a_sampler_cannot_write_is_one_line(name):
    for key, samplers in options().items():
        if name not in samplers:
            with pytest.raises(ValueError, match=f"{key} is not read by method {name}"):
                make_sampler(method=name, **{key: 0})
            default = next(iter(samplers.values())).default
            assert make_sampler({key: default}, method=name).name == name
    with pytest.raises(UserError, match="unknown option 'max_token'; did you mean max"):
        make_sampler(method=name, max_token=3)
    with pytest.raises(ValueError, match="max_tokens must be at least 1"):
        make_sampler(method=name, max_tokens=0)
    with pytest.raises(UserError, match="; give a shorter prompt"):
        make_write(name, fields={"max_length": 12})([[60] * 9])
    sampler = make_sampler(method=name)

    class Other(objectives.objective_class("lm")):
        write_order = "backwards"

    words = re.escape(f"writes in the order backwards, of methods none, not {name}")
    with pytest.raises(UserError, match=words):
        find_writer(Other(), sampler)
