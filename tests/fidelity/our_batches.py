"""Our batches of synthetic text, of which statistics are taken."""

# B batch, L length, R raw tokens an example

import tempfile
from pathlib import Path
from random import Random

import numpy as np

from research import objectives
from research.contract.batch import OTHER_DOCUMENT, SENTENCE, WORD, Example, Lexicon
from research.data.rows.packing.sentences import find_sentences
from research.data.store.example_index import build_index
from tests.fidelity.table import System
from tests.testing import example_batches, toy_objectives

NUM_ROWS = 300
VOCAB = example_batches.vocab(600, sentinels=130)
# BERT-wwm masks entries of type "word", and words of the flags outside of them. The one
# entry of this type is the mask token, which no text has: all words are of the flags.
_ENTRIES = VOCAB.lexicon
_WORD = Lexicon(
    np.append(_ENTRIES.token, np.int32([[VOCAB.mask_id, -1]]), axis=0),
    np.append(_ENTRIES.size, np.int32(1)),
    np.append(_ENTRIES.entry_type, np.int32(len(_ENTRIES.type_names))),
    (*_ENTRIES.type_names, "word"),
    _ENTRIES.triples,
)
VOCAB = VOCAB._replace(
    token_count=np.ones(600, np.int64),  # XLM chooses by it; here all the same
    lexicon=_WORD,
)


LARGE = example_batches.vocab(6000)
"""That of texts that were packed, which have ids up to 5000."""

NUM_DOCUMENTS = 2000
"""That are packed."""

PARTS = {"ernie": "token", "gpt_bert": "masked"}
"""Systems whose objective has parts -> the one that is measured."""


def objective_of(system: System):
    """The objective at the first published size, or a part of it; and the length."""
    config = system.config(system.sizes[0])
    made = objectives.make_objective(**config.objective)
    if part := PARTS.get(system.name):
        made = made.members[part]
    return made, config.data.length


def full_rows(objective, length: int, num: int = NUM_ROWS) -> Example:
    """Texts that fill a row; two in three tokens start a word, one in 20 a sentence."""
    width = objective.text_spec(length).length
    text = example_batches.texts(width, [width] * num, VOCAB)
    starts = np.random.default_rng(1).random(text.flags.shape) < 1 / 20
    flags = text.flags | np.where(starts, WORD | SENTENCE, 0)
    flags[:, 0] |= WORD | SENTENCE
    first = np.full(num, width // 2, np.int32)
    return text._replace(
        flags=flags.astype(np.uint8), first_length=first, label=np.zeros(num, np.int32)
    )


def batch_of(system: System) -> tuple[dict, Example, int]:
    """Our batch of full rows, their text, and the length."""
    objective, length = objective_of(system)
    text = full_rows(objective, length)
    keys = example_batches.keys(NUM_ROWS)
    return objective.corrupt(text, keys, VOCAB, length), text, length


def draw_documents(num: int) -> list[list[int]]:
    """Documents' sentences, each its number of tokens."""
    rng = Random(0)
    return [
        [max(2, round(rng.gauss(24, 12))) for _ in range(rng.randint(3, 60))]
        for _ in range(num)
    ]


def stream_of(documents: list[list[int]]) -> toy_objectives.Stream:
    """The stream of documents with these sentences."""
    stream = toy_objectives.Stream((tuple(map(sum, documents)),))
    offsets = [
        start + size
        for start, sizes in zip(stream.document_offsets, documents, strict=False)
        for size in np.cumsum([0, *sizes[:-1]])
    ]
    stream.sentence_offsets = np.append(offsets, stream.num_tokens)
    stream.flags &= ~np.uint8(SENTENCE)
    stream.flags[stream.sentence_offsets[:-1]] |= SENTENCE
    stream.fingerprint = "fidelity"
    return stream


def wrong_pairs(system: System, documents: list[list[int]], epoch: int) -> np.ndarray:
    """[N, 2]: where both segments of an epoch's pairs of two documents begin.

    They are those of the copy that the epoch reads, under the system's config.
    """
    objective, length = objective_of(system)
    data = system.config(system.sizes[0]).data
    copy = epoch % data.dupe_factor if data.dupe_factor else epoch
    spec = objective.text_spec(length).replace(copy=copy * (data.pairs == "each_copy"))
    pairs = spec.pairs(find_sentences(stream_of(documents)))
    wrong = pairs.label == OTHER_DOCUMENT
    return np.stack([pairs.start, pairs.second], axis=1)[wrong]


def packed_batch(system: System) -> tuple[dict, np.ndarray]:
    """Our batch of all pairs of synthetic documents, and the pairs' labels."""
    objective, length = objective_of(system)
    spec = objective.text_spec(length)
    with tempfile.TemporaryDirectory() as folder:
        stream = stream_of(draw_documents(NUM_DOCUMENTS))
        index = build_index(stream, spec, 0, Path(folder))
        row = np.arange(len(index.start))
        arrays = index.read(row, spec.width, VOCAB.pad_id)
        label = np.array(index.label)
    zero = np.zeros_like(row)
    arrays |= {"corpus": zero, "step": zero, "label": label, "number": row}
    keys = example_batches.keys(len(row))
    return objective.corrupt(Example(**arrays), keys, LARGE, length), label


def packed_pairs(system: System) -> tuple[np.ndarray, list[list[int]], int]:
    """Of our rows: tokens of the first and second segment, and whether the row's label
    says two documents [B, 3]; the documents' sentences; and the length.
    """
    batch, label = packed_batch(system)
    text = (batch["segment"] > 0) & ~np.isin(
        batch["token"], [LARGE.bos_id, LARGE.eos_id]
    )
    sizes = [(text & (batch["token_type"] == n)).sum(axis=1) for n in (0, 1)]
    documents, (_, length) = draw_documents(NUM_DOCUMENTS), objective_of(system)
    return np.stack([*sizes, label == OTHER_DOCUMENT], axis=1), documents, length
