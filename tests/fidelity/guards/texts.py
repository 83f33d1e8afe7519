"""Guards of texts: what a small corpus becomes with a published config."""

# R raw tokens an example

import copy
import functools
import json
import random
import tempfile
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np

from research import objectives
from research.config.config import Config
from research.contract.batch import OTHER_DOCUMENT, SENTENCE
from research.contract.errors import UserError
from research.data.read.corpus import sampling_rates
from research.data.rows.packing.sentences import find_sentences
from research.networks.shared.dense import dropout
from research.networks.transformer.positions import relative
from research.optimize.schedule import make_schedule
from research.program.setup import open_run_data
from tests.fidelity import table
from tests.fidelity.guards.batches import length_of, objective_with, parts_of
from tests.fidelity.guards.networks import small
from tests.fidelity.guards.registry import guard, phrase
from tests.fidelity.our_batches import VOCAB, full_rows, objective_of
from tests.fidelity.table import System
from tests.testing import toy_objectives
from tests.testing.example_batches import keys

LENGTH = 64
MOJIBAKE = "schÃ¶n"
"""What ftfy would repair."""


class Opened(NamedTuple):
    """A config with a small corpus, its data, and its texts."""

    config: Any
    objective: Any
    data: Any
    texts: list[str]


@functools.cache
def opened(name: str) -> Opened:
    """The published config of a system, but for sizes, on lines in three scripts.

    Documents have lines of one to three sentences, some of one word.
    """
    system, folder = table.load(name), Path(tempfile.mkdtemp())
    rng = random.Random(0)
    words = ["".join(rng.choices("abcdefgh", k=rng.randint(2, 6))) for _ in range(250)]
    words += ["Été", "Café", MOJIBAKE, "北京大学", "北京大学"]

    def sentence() -> str:
        text = " ".join(rng.choices(words, k=rng.randint(1, 12)))
        return text[0].upper() + text[1:] + "."

    def line() -> str:
        return " ".join(sentence() for _ in range(rng.randint(1, 3)))

    texts = ["\n".join(line() for _ in range(rng.randint(2, 12))) for _ in range(60)]
    rows = (json.dumps({"text": text}, ensure_ascii=False) for text in texts)
    (folder / "texts.jsonl").write_text("\n".join(rows))
    config = copy.deepcopy(system.config(system.sizes[0]))
    config.unlock()
    config.data.update(corpus=str(folder), vocabulary_size=450, length=LENGTH)
    config.data.update(sentinels=min(config.data.sentinels, 100), held_out=0.1)
    config.data.update(cache_dir=str(folder / "cache"), mixture={})
    types = ("word", "phrase", "entity", "connective")
    lexicon = "".join(f"{w}\t{types[n % 4]}\n" for n, w in enumerate(words[:40]))
    (folder / "lexicon.tsv").write_text(lexicon)
    config.data.lexicon = str(folder / "lexicon.tsv")
    config.train.batch = 8
    objective = Config.of(config).objective
    return Opened(config, objective, open_run_data(Config.of(config)), texts)


@guard("order of the copies")
def order_of_copies(system: System):
    """Whether the first epoch has each text once, or twice of some copies' texts."""
    source = opened(system.name).data.train.source
    number = source.numbers(np.arange(source.num_examples))
    once = len(set(number.tolist())) == source.num_examples
    return phrase({"one after another": once, "mixed": not once})


@guard("short rows")
def short_rows(system: System):
    """Of halves of which half are made shorter: whether a document has both kinds."""
    stream = toy_objectives.Stream((tuple([400] * 40),))
    spec = objective_with(system, short_rate=0.5).text_spec(LENGTH)
    pairs = spec.pairs(find_sentences(stream))
    document = np.searchsorted(stream.document_offsets, pairs.start, side="right")
    full = pairs.length + pairs.second_length >= LENGTH - 3
    both = [len(set(full[document == n])) == 2 for n in set(document)]
    of_document = [len(set(full[document == n][:-1])) == 1 for n in set(document)]
    return phrase(
        {
            "drawn for each example": np.mean(both) > 0.9,
            "drawn for each document": np.mean(of_document) > 0.9,
        }
    )


@guard("pairs of two documents")
def other_documents(system: System):
    """Of pairs of two documents, whether second segments begin where others do."""
    spec = next(iter(parts_of(system).values())).text_spec(LENGTH)
    stream = toy_objectives.Stream((tuple([400] * 40),))
    pairs = spec.pairs(find_sentences(stream))
    negative = pairs.label == OTHER_DOCUMENT
    exchanged = np.isin(pairs.second[negative], pairs.second[~negative]).mean()
    return phrase(
        {
            "second segments are exchanged": exchanged > 0.9,
            "sentences of any other document, from any of them on": exchanged < 0.7,
        }
    )


@guard("stages")
def stages(system: System):
    """Which parts have rows, and at which thirds or sixths of the steps."""
    config = system.config(system.sizes[0])
    made = objectives.make_objective(**config.objective.to_dict())
    steps = config.train.steps
    if hasattr(made, "draw_parts"):
        at = np.repeat(np.array([0.1, 0.4, 0.9]) * steps, 300).astype(np.int64)
        drawn = made.draw_parts(keys(len(at)), at).reshape(3, -1)
        found = [set(row) for row in drawn]
        one_each = {len(parts) for parts in found} == {1} and len(
            set.union(*found)
        ) == 3
        return phrase({"a third of the steps each": one_each})
    starts = {
        name: next((s for s, weight in part.weight if weight), 0)
        for name, part in config.objective.parts.items()
    }
    return f"{len(set(starts.values()))}"


@guard("tasks")
def tasks(system: System):
    config = system.config(system.sizes[0])
    return phrase({"one corpus": not config.data.mixture and not config.data.task})


@guard("tasks that are left out")
def left_out(system: System):
    """What the parts of the objective say."""
    names = set(parts_of(system))
    known = {
        "the dialogue language model": {"token", "phrase", "entity"},
        "relevance of search results": set(
            ["masked", "capital", "document", "order", "distance", "discourse"]
        ),
    }
    return phrase({task: names == own for task, own in known.items()})


@guard("tasks of a step")
def tasks_of_a_step(system: System):
    """Whether a batch has arrays of every part."""
    own = objectives.make_objective(**system.config("base").objective.to_dict())
    specs = own.batch_spec(LENGTH)
    every = all(any(name in key for key in specs) for name in parts_of(system))
    return phrase({"all tasks read one text": every})


@guard("warm-up")
def warmups(system: System):
    config = system.config(system.sizes[0])
    schedule = make_schedule(Config.of(config).optimizer, config.train.steps)
    rates = [float(schedule(s)) for s in range(0, config.train.steps, 1000)]
    peak = int(np.argmax(rates))
    falls = all(a >= b for a, b in zip(rates[peak:], rates[peak + 1 :], strict=False))
    return phrase({"of the run": falls, "of each new task": not falls})


@guard("compatibility characters")
def compatibility_characters(system: System):
    vocabulary = opened(system.name).data.vocabulary
    one, two = (vocabulary.encode(text)[0].tolist() for text in ("ﬁ²", "fi2"))
    return phrase({"kept": one != two, "decomposed (NFKD)": one == two})


@guard("Chinese")
def chinese(system: System):
    """Of a text that says one name of four characters again and again."""
    token, _ = opened(system.name).data.vocabulary.encode("北京大学")
    return phrase(
        {
            "a piece each character": len(token) >= 4,
            "pieces of the trained vocabulary": len(token) < 4,
        }
    )


@guard("text")
def text(system: System):
    """Whether text comes back as it was, but for white space and case."""
    own = opened(system.name)
    vocabulary, document = own.data.vocabulary, own.texts[0]
    back = vocabulary.decode(vocabulary.encode(document)[0])
    same = back.lower().split() == document.lower().split()
    return phrase({"as it is": same and MOJIBAKE in " ".join(own.texts)})


@guard("end of a line")
def end_of_a_line(system: System):
    """What stands between lines, and between documents."""
    own = opened(system.name)
    (index,) = own.data.train.source.indices
    stream, vocab = index.stream, own.data.vocabulary.vocab
    count = stream.count_tokens()[vocab.eos_id]
    lines = own.data.vocabulary.encode("a b\nc d")[0].tolist()
    joined = own.data.vocabulary.encode("a b c d")[0].tolist()
    breaks = lines != joined
    ends = count == stream.num_documents
    return phrase(
        {
            "eos, and so of a document": count > 2 * stream.num_documents,
            "a token; eos ends a document": breaks and ends,
            "white space; eos ends a document": not breaks and ends,
        }
    )


@guard("pieces of a document")
def pieces(system: System):
    """Of documents of two rows and a half: which spans are read."""
    spec = objective_of(system)[0].text_spec(LENGTH)
    size = spec.length * 5 // 2
    spans = spec.spans(toy_objectives.Stream(((size, size),)), 0)
    begins = spans.start.reshape(2, -1) - np.array([[0], [size + 1]])
    lengths = spans.length.reshape(2, -1)
    consecutive = np.array_equal(begins, np.tile([0, 1, 2], (2, 1)) * spec.length)
    within = (lengths.sum(axis=1) == size).all()
    return phrase({"consecutive, of one document": consecutive and within})


@guard("tokens of a row of a long document")
def longest_row(system: System):
    return length_of(system)


@guard("sentences longer than a row")
def long_sentences(system: System):
    """Of documents of one sentence that is two rows long and a half."""
    objective, _ = objective_of(system)
    spec = objective.text_spec(LENGTH)
    size = spec.length * 5 // 2
    stream = toy_objectives.Stream(((size,) * 4,))
    stream.sentence_offsets = np.append(stream.document_offsets[:-1], stream.num_tokens)
    stream.flags &= ~np.uint8(SENTENCE)
    spans = spec.spans(stream, 0)
    read = spans.length.sum()
    return phrase(
        {
            "left out": read == 0,
            "cut, and continued in the next row": read == 4 * size,
        }
    )


@guard("start of a row")
def start_of_a_row(system: System):
    objective, length = objective_of(system)
    text = full_rows(objective, length, 8)
    batch = objective.corrupt(text, keys(8), VOCAB, length)
    first = batch["token"][:, 0]
    return phrase(
        {
            "none": np.array_equal(first, text.token[:, 0]),
            "bos": (first == VOCAB.bos_id).all(),
            "eos": (first == VOCAB.eos_id).all(),
        }
    )


@guard("first token of a sentence")
def start_of_a_sentence(system: System):
    objective, length = objective_of(system)
    batch = objective.corrupt(full_rows(objective, length, 8), keys(8), VOCAB, length)
    first = batch["encoder_token"][:, 0]
    return phrase(
        {"eos": (first == VOCAB.eos_id).all(), "bos": (first == VOCAB.bos_id).all()}
    )


@guard("text of a row")
def text_of_a_row(system: System):
    """Whether rows follow each other in a stream of whole documents."""
    (index,) = opened(system.name).data.train.source.indices
    follow = (np.diff(index.start) == index.stride).all()
    return phrase({"a stream of whole documents": follow and index.stride > 0})


@guard("denominator of the loss")
def denominator(system: System):
    """Of rows of which the second is short: the weights of its padding."""
    objective, length = objective_of(system)
    text = full_rows(objective, length, 2)
    short = text._replace(length=np.array([text.length[0], 20], np.int32))
    batch = objective.corrupt(short, keys(2), VOCAB, length)
    used = batch["weight"].sum(axis=1)
    return phrase(
        {
            "positions of the targets, padding included": used[0] == used[1],
            "positions outside padding; rows have none": used[1] < used[0]
            and used[0] == batch["weight"].shape[1],
        }
    )


@guard("text in one language")
def one_language(system: System):
    objective = objective_with(system, languages="0")
    spec = objective.text_spec(length_of(system))
    stream = (spec.unit, spec.length) == ("stream", 256)
    return phrase({"a stream of 256 tokens of it": stream})


@guard("text in one language, and pairs")
def kinds_of_text(system: System):
    """The rates of two pairs of languages and one language, the pairs far larger."""
    objective = objective_with(system, languages="0:1 0:1 0")
    streams = objective.text_spec(256).streams
    groups = [number in streams for number in range(3)]
    alpha = system.config(system.sizes[0]).data.alpha
    rates = sampling_rates([1000, 500, 10], alpha, groups)
    return phrase({"each kind as often, and sampled by itself": rates[2] == 0.5})


@guard("sampling of the vocabulary's text")
def vocabulary_alpha(system: System):
    return system.config(system.sizes[0]).data.alpha


@guard("pairs with more than 100 tokens on a side")
def long_pairs(system: System):
    """Of documents of 400 tokens: what their rows read."""
    objective, length = objective_of(system)
    spec = objective.text_spec(length)
    spans = spec.spans(toy_objectives.Stream(((400,) * 4,)), 0)
    return phrase(
        {
            "left out": not len(spans.length),
            "cut to the row": (spans.length == spec.length).all(),
        }
    )


@guard("rows of pairs in a batch")
def rows_of_a_batch(system: System):
    data = system.config(system.sizes[0]).data
    return phrase(
        {
            "of similar lengths": bool(data.length_buckets),
            "train.batch, of any lengths": not data.length_buckets,
        }
    )


@guard("initial parameters")
def initial_parameters(system: System):
    train = system.config(system.sizes[0]).train
    return phrase({"random; train.init_from names others": train.init_from == ""})


@guard("phrases and entities")
def phrases_and_entities(system: System):
    """Units come from the lexicon: without one they are refused."""
    part = next(
        p for p in parts_of(system).values() if getattr(p, "unit", "") == "lexicon"
    )
    text = full_rows(part, LENGTH, 4)
    try:
        part.corrupt(text, keys(4), VOCAB._replace(lexicon=None), LENGTH)
    except UserError:
        return "entries of a lexicon"
    return "unknown"


@guard("rows of an evaluation")
def evaluation_rows(system: System):
    """Of a batch, which read as many streams."""
    own = opened(system.name)
    size = len(next(own.data.eval.evaluation())["token"])
    assert own.data.eval.source.contiguous
    return phrase({"train.batch": size == own.config.train.batch})


@guard("dropout of relative positions")
def relative_dropout(system: System):
    """By the shape of what is dropped."""
    own, shapes = small(system.name).with_options(position_dropout=0.5), set()

    def recorded(module, x, place):
        if place == "position":
            shapes.add(x.shape)
        return dropout(module, x, place)

    names = ("token", "position", "segment", "token_type", "rank", "reach")
    group = {name: own.batch[name] for name in names}
    with mock.patch.object(relative, "dropout", recorded):
        own.run(lambda net: net.states(group), dropout=True)
    (shape,), (rows, num_keys) = shapes, group["token"].shape
    return phrase(
        {
            "of a distance, shared by the batch": len(shape) == 2,
            "of a distance, in each row": len(shape) == 3 and shape[1] > num_keys,
            "of a key's position": shape[:2] == (rows, num_keys),
        }
    )
