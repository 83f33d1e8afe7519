"""New texts are the most probable by the loss that trains the network."""

import dataclasses
from types import MappingProxyType

import jax
import numpy as np
import pytest

from research import networks, objectives
from research.contract.batch import NEVER
from research.contract.errors import UserError
from research.generation.generate import check_written, find_writer, make_generate
from research.generation.samplers import make_sampler
from research.objectives.layout import input_format, seq2seq, text_to_text
from research.objectives.layout.prompt import pad_rows
from research.objectives.lm import unilm
from tests.testing.interval_patterns import SinkWindow, with_sinks
from tests.testing.objective_cases import VOCAB, make_constants

PROMPTS = [[60, 61, 70], [50], [62, 63, 64, 65, 90]]
OPTIONS = make_sampler(max_tokens=6, min_tokens=3)


def lm_batch(objective, prompt, text):
    """The arrays of a row of bos, prompt and text; the text is scored."""
    first = VOCAB.eos_id if objective.mem_len else VOCAB.bos_id
    row = np.array([[first, *prompt, *text]], np.int32)
    group = input_format.causal_input(row[:, :-1], np.array([row.shape[1] - 1]))
    index = np.arange(row.shape[1] - 1)[None]
    if objective.prefix == "random":
        group["rank"] = group["reach"] = np.maximum(0, index - len(prompt))
    weight = (index >= len(prompt)).astype(np.float32)
    return group | {"target": row[:, 1:], "weight": weight}


def seq2seq_batch(objective, prompt, text):
    """The arrays of an encoder's row and its target."""
    is_bart = type(objective).__module__.endswith("bart")
    before = [VOCAB.bos_id] * is_bart
    encoder = pad_rows([[*before, *prompt, VOCAB.eos_id]], VOCAB.pad_id)
    target = pad_rows([[*before, *text]], VOCAB.pad_id)
    start = VOCAB.eos_id if is_bart else VOCAB.pad_id
    batch = seq2seq.make_batch(encoder, target, VOCAB, start)
    batch["weight"][:, : len(before)] = 0
    return batch


def joined_batch(objective, prompt, text):
    """Input and target as one text."""
    encoder = pad_rows([[*prompt, VOCAB.eos_id]], VOCAB.pad_id)
    target = pad_rows([text], VOCAB.pad_id)
    length = len(prompt) + 1 + len(text)
    return text_to_text.make_batch(
        encoder, target, VOCAB, length, objective.layout, VOCAB.pad_id
    )


def unilm_batch(objective, prompt, text):
    """A row for each token of the text, which is masked there."""
    row = [VOCAB.bos_id, *prompt, VOCAB.eos_id, *text]
    first = len(row) - len(text)
    token = np.tile(np.array(row, np.int32), (len(text), 1))
    scored = first + np.arange(len(text), dtype=np.int32)[:, None]
    np.put_along_axis(token, scored, VOCAB.mask_id, axis=1)
    count = np.full(len(text), len(row))
    in_text = np.tile(np.arange(len(row)) >= first, (len(text), 1)).astype(np.int32)
    rows = input_format.Text(token, token, in_text, count)
    rank = unilm.mode_rank(np.full(len(text), unilm.SEQ2SEQ), rows)
    group = input_format.full_input(token, count)
    group |= {"rank": rank, "reach": rank, "token_type": 4 + in_text}
    target = np.array(text, np.int32)[:, None]
    labels = np.zeros(len(text), np.int32)
    return group | {
        **{"scored": scored, "target": target, "weight": np.ones(target.shape)},
        **{"label": labels, "label_weight": labels.astype(np.float32)},
    }


def plm_batch(objective, prompt, text):
    """Content and a query for each token of the text, which come in their order."""
    row = np.array([[*prompt, *text]], np.int32)
    group = input_format.full_input(row, np.array([row.shape[1]]))
    rank = np.maximum(0, np.arange(row.shape[1], dtype=np.int32) - len(prompt) + 1)
    group["rank"] = group["reach"] = rank[None]
    query = {name: array[:, len(prompt) :] for name, array in group.items()}
    query["rank"], query["reach"] = 0 * query["rank"] + NEVER, query["reach"] - 1
    both = {name: np.concatenate([group[name], query[name]], 1) for name in group}
    scored = row.shape[1] + np.arange(len(text), dtype=np.int32)[None]
    target = np.array([text], np.int32)
    return both | {"scored": scored, "target": target, "weight": np.ones(target.shape)}


def mass_batch(objective, prompt, text):
    """An encoder's row, and what the decoder writes of it, at its positions."""
    row = np.array([[VOCAB.bos_id, *prompt, VOCAB.eos_id]], np.int32)
    masked = row == VOCAB.mask_id
    before, size = max(0, masked.argmax() - 1), masked.sum()
    target = np.array([text[: size or None]], np.int32)  # a span has no end of its own
    read = np.append(row[0, before], target[0, :-1])[None].astype(np.int32)
    encoder = input_format.full_input(row, np.array([row.size]), "encoder_")
    decoder = input_format.causal_input(read, np.array([read.size]), "decoder_")
    decoder["decoder_position"] += np.int32(before)
    visible = {"cross_segment": 1 - masked.astype(np.int32)}
    weight = np.ones(target.shape, np.float32)
    return encoder | decoder | visible | {"target": target, "weight": weight}


MASKS = [[60, VOCAB.mask_id, VOCAB.mask_id, VOCAB.mask_id, 70], [50]]
CASES = {
    "lm": ("lm", {}, {"position": "rotary", "num_kv_heads": 2}, lm_batch),
    "prefix": ("lm", {"prefix": "random"}, {"position": "t5"}, lm_batch),
    "mems": ("lm", {"mem_len": 4}, {"position": "relative"}, lm_batch),
    "prefix dae": ("dae", {"layout": "prefix"}, {"position": "t5"}, joined_batch),
    "dae": (
        "dae",
        {},
        {"position": "t5", "init": "t5", "shared_stacks": True},
        seq2seq_batch,
    ),
    "bart": ("bart", {}, {}, seq2seq_batch),
    "unilm": ("unilm", {}, {"norm_placement": "post"}, unilm_batch),
    "plm": ("plm", {}, {"position": "relative"}, plm_batch),
    "mass": (
        "mass",
        {"decoder_start": "previous", "cross_attention": "unmasked"},
        {},
        mass_batch,
    ),
    "part": (
        "joint",
        {"parts": {"next": {"objective": "lm"}, "mlm": {}}},
        {"position": "rotary"},
        lm_batch,
    ),
}


LONG = ("prefix", "part", "bart")
"""Cases whose networks and attention patterns "prefix dae", "lm" and "dae" have."""


@pytest.mark.parametrize(
    ("name", "fields", "options", "make_batch"),
    [
        pytest.param(*case, id=name, marks=[pytest.mark.long] * (name in LONG))
        for name, case in CASES.items()
    ],
)
def test_the_text_is_the_most_probable_by_the_loss(
    name, fields, options, make_batch, make_model, mesh
):
    """Its log p is minus the loss of the whole text, which is read at once."""
    model = make_model(name, fields, **options)
    prompts = MASKS if name == "mass" else PROMPTS[:2]
    texts = make_generate(*model, VOCAB, mesh, OPTIONS)(prompts)
    for prompt, (text,) in zip(prompts, texts, strict=True):
        assert text.ended or len(text.tokens) == 6
        loss = loss_of(model, make_batch, prompt, text)
        np.testing.assert_allclose(text.log_prob, -loss, rtol=1e-5)


def test_new_tokens_attend_to_what_the_last_one_of_the_prompt_did(make_model, mesh):
    """And to all new ones: with a lowest rank and a second interval of ranks."""
    _, network, params = make_model("lm", {}, position="rotary")
    objective = SinkWindow(window=1)
    network = networks.build(network.options, objective.needs(VOCAB), VOCAB)
    model = objective, network, params

    def sink_batch(objective, prompt, text):
        group = lm_batch(objective, prompt, text)
        last = {"rank": np.minimum(group["rank"], len(prompt))}
        return with_sinks(last, objective.window) | group

    (text,) = make_generate(*model, VOCAB, mesh, OPTIONS)(PROMPTS[2:])[0]
    loss = loss_of(model, sink_batch, PROMPTS[2], text)
    np.testing.assert_allclose(text.log_prob, -loss, rtol=1e-5)
    assert abs(loss_of(model, lm_batch, PROMPTS[2], text) / loss - 1) > 1e-4


def loss_of(model, make_batch, prompt, text, constants=MappingProxyType({})):
    """The sum of the loss over a text and its end."""
    objective, network, params = model
    objective = find_writer(objective, make_sampler())
    batch = make_batch(objective, prompt, [*text.tokens, *[VOCAB.eos_id] * text.ended])
    batch |= {"carry": None, "example": np.zeros(len(batch["target"]), np.int32)}
    batch |= constants

    @jax.jit
    def terms(params):
        fn = lambda net: objective.loss(net, batch, None)[0]  # noqa: E731
        return networks.apply(network, params, fn)

    return float(sum(term.total for term in terms(params).values() if term.coef))


def test_beams_are_scored_by_the_loss(make_model, mesh):
    """Each goes on from its own keys."""
    model = make_model("lm", {}, position="rotary")
    options = make_sampler(method="beam", beams=4, max_tokens=5, length_penalty=0.0)
    for text in make_generate(*model, VOCAB, mesh, options)(PROMPTS[:1])[0]:
        loss = loss_of(model, lm_batch, PROMPTS[0], text)
        np.testing.assert_allclose(text.score, -loss, rtol=1e-5)


def test_lstms_write_beams_from_the_vectors_of_a_prompt(make_model, mesh):
    """The log p of each is minus the loss, which reads the same vectors."""
    network = {"network": "lstm", "layers": 1, "joined_layers": 1, "width": 8}
    network |= {"input": "vectors", "tie_embeddings": False}
    fields = {"target_length": 12, "vectors": "random", "vectors_width": 5}
    fields["model"] = network
    model = make_model("sequence_to_sequence", fields)
    constants = make_constants(model[0])
    options = make_sampler(method="beam", beams=3, max_tokens=5, length_penalty=0.0)
    write = make_generate(*model, VOCAB, mesh, options, constants=constants)
    for prompt, texts in zip(PROMPTS[:2], write(PROMPTS[:2]), strict=True):
        for text in texts:
            loss = loss_of(model, seq2seq_batch, prompt, text, constants)
            np.testing.assert_allclose(text.score, -loss, rtol=1e-5)


def test_a_decoder_writes_in_the_language_that_is_asked_for(make_model, mesh):
    """Its text, and the log p of that, are those of an objective in these languages."""
    model = make_model("xnlg", {"languages": "0:1"}, token_types=3, layers=1)

    def write(objective, **options):
        chosen = make_sampler(max_tokens=2, **options)
        return make_generate(objective, *model[1:], VOCAB, mesh, chosen)(PROMPTS[:1])

    expected = write(objectives.make_objective("xnlg", languages="1:2"))
    assert write(model[0], languages="1:2") == expected
    with pytest.raises(
        UserError, match=r"languages is 0:3, but .* \(.* 3\) are 0 to 2"
    ):
        write(model[0], languages="0:3")
    with pytest.raises(
        ValueError, match="languages must be one pair such as 0:1, not '0 1'"
    ):
        make_sampler(languages="0 1")


def test_what_cannot_be_written_is_refused(make_model, mesh):
    def write(name, fields, prompts, **options):
        model = make_model(name, fields, **options)
        return make_generate(*model, VOCAB, mesh, chosen)(prompts)

    chosen = OPTIONS
    with pytest.raises(
        UserError, match=r"objective tagging does not write text; bart, dae"
    ):
        write("tagging", {}, PROMPTS)
    with pytest.raises(UserError, match=r"max_length is 12; give a shorter prompt"):
        write("lm", {}, [[60] * 9], max_length=12)
    with pytest.raises(UserError, match="direction is both; text is written forward"):
        write("lm", {"direction": "both"}, PROMPTS)
    with pytest.raises(UserError, match="plm needs prompts of at least one token"):
        write("plm", {}, [[60], []])
    with pytest.raises(UserError, match="the masks of a prompt are next to each other"):
        write("mass", {}, [[VOCAB.mask_id, 60, VOCAB.mask_id]])
    with pytest.raises(UserError, match="the masks of a prompt are 2"):
        write("mass", {}, [[60, VOCAB.mask_id, VOCAB.mask_id]])
    chosen = dataclasses.replace(OPTIONS, languages="0")
    with pytest.raises(
        UserError, match="languages is 0, but the network has one stack"
    ):
        write("lm", {}, PROMPTS)
    with pytest.raises(UserError, match=r"token_types is 0\) do not exist"):
        write("mass", {}, PROMPTS, token_types=0)
    for name in ("forced_bos", "forced_eos", "suppress", "begin_suppress", "ends"):
        token = VOCAB.size if name.startswith("forced") else (60, VOCAB.size)
        chosen = dataclasses.replace(OPTIONS, **{name: token})
        with pytest.raises(UserError, match=f"{name} names token {VOCAB.size}, but"):
            write("lm", {}, PROMPTS)
    others = tuple({*range(VOCAB.size)} - {VOCAB.eos_id, 60, 61})
    for method in ("greedy", "sample", "beam"):
        chosen = make_sampler(
            **{"method": method, "max_tokens": 5, "min_tokens": 2},
            **{"no_repeat_ngram": 1, "suppress": others},
        )
        possible, impossible = write("lm", {}, [[], [70, 60]])
        check_written(possible)
        with pytest.raises(UserError, match="no token may follow the prompt"):
            check_written(impossible)
    chosen = OPTIONS
    assert write("lm", {}, []) == []


def test_of_several_parts_the_method_names_one():
    parts = {"r": {"mode": "R", "rate": 0.3}, "s": {"mode": "S"}}
    mix = objectives.make_objective("mix", base_objective="dae", parts=parts)
    part = find_writer(mix, make_sampler(method="r.beam"))
    assert part.rate == 0.3
    both = objectives.make_objective("joint", parts={"lm": {}, "mlm": {}})
    for method, name in (
        ("beam", "lm"),
        ("confidence", "mlm"),
    ):  # the only one that can
        assert find_writer(both, make_sampler(method=method)).name == name
    joint = objectives.make_objective("joint", token_types=2, parts={"lm": {}})
    plain = objectives.make_objective("lm")
    for objective, method, words in (
        (mix, "beam", "objective mix is r.METHOD or s.METHOD"),
        (plain, "r.beam", "objective lm is METHOD, where METHOD is beam, greedy"),
        (joint, "lm.beam", "objective joint with token_types 2 writes no text"),
    ):
        with pytest.raises(UserError, match=words):
            find_writer(objective, make_sampler(method=method))
