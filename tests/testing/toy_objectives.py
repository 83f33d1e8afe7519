"""A stream in memory, and an objective whose batch is the raw text it is given."""

import itertools
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from research import objectives
from research.contract.batch import ArraySpec, VocabInfo
from research.data import counter_rng
from research.data.rows import TextSpec


class Stream:
    """Random tokens, flags and sentences; `shards` gives the documents' lengths."""

    separator_length = 1
    arrays = MappingProxyType({})

    def __init__(self, shards=((7, 5, 9), (1, 39)), seed=0, labels=("a", "b")):
        lengths = np.array([length for shard in shards for length in shard])
        self.document_offsets = np.concatenate([[0], np.cumsum(lengths + 1)])
        ends = np.cumsum([sum(shard) + len(shard) for shard in shards])
        self.shard_offsets = np.concatenate([[0], ends])
        self.num_tokens = int(ends[-1])
        self.num_documents = len(lengths)
        self.labels = np.arange(len(lengths), dtype=np.int32) % (len(labels) + 1) - 1
        self.label_names = labels
        self.fingerprint = f"toy-{shards}-{seed}-{labels}"
        rng = np.random.default_rng(seed)
        self.token = rng.integers(9, 5000, self.num_tokens).astype(np.int32)
        self.flags = rng.integers(0, 16, self.num_tokens).astype(np.uint8)
        starts = rng.random(self.num_tokens) < 0.2
        starts[self.document_offsets[1:] - 1] = False  # the separators
        starts[self.document_offsets[:-1][lengths > 0]] = True
        self.part_offsets = self.document_offsets[:-1][lengths > 1] + 1
        self.sentence_offsets = np.append(np.flatnonzero(starts), self.num_tokens)

    def gather(self, start, length, width, pad):
        offset = np.arange(width)
        inside = offset < length[:, None]
        index = np.where(inside, start[:, None] + offset, 0)
        token = np.where(inside, self.token[index], pad).astype(np.int32)
        return token, np.where(inside, self.flags[index], 0).astype(np.uint8)

    def gather_arrays(self, names, start, length, width):
        assert not names
        return {}


TIMED = ("step", "document")


@dataclass(frozen=True)
class Objective(objectives.Objective):
    """Its batch is the raw text, and random numbers drawn from each row's key."""

    unit: str = "stream"
    extra: int = 0  # raw tokens beyond the length
    contiguous: bool = False
    timed: bool = False  # the batch also holds the step and document of its rows

    pattern = "full"
    min_length = 1
    network = loss = None  # its batches train nothing

    @property
    def reads_step(self):
        return self.timed

    def text_spec(self, length):
        spec = TextSpec(self.unit, length + self.extra)
        fields = {"contiguous": self.contiguous, "other_document_rate": 0.5}
        has = spec.__dataclass_fields__.keys()
        return spec.replace(**{name: fields[name] for name in fields.keys() & has})

    def batch_spec(self, length):
        width = self.text_spec(length).width
        return {
            "token": ArraySpec((width,)),
            "flags": ArraySpec((width,)),
            "weight": ArraySpec((width,), np.float32),
            "label": ArraySpec(()),
            "first_length": ArraySpec(()),
            "corpus": ArraySpec(()),
            "random": ArraySpec((4,)),
        } | ({"step": ArraySpec(()), "document": ArraySpec(())} if self.timed else {})

    def corrupt(self, example, key, vocab, length):
        width = self.text_spec(length).width
        assert example.token.shape == (len(key), width)
        inside = np.arange(width) < example.length[:, None]
        assert (example.token[~inside] == vocab.pad_id).all()
        return {
            "token": example.token,
            "flags": example.flags.astype(np.int32),
            "weight": inside.astype(np.float32),
            "label": example.label,
            "first_length": example.first_length,
            "corpus": example.corpus,
            "random": (counter_rng.random_bits(key, "toy", 4) >> np.uint64(40)).astype(
                np.int32
            ),
        } | (
            {name: getattr(example, name).astype(np.int32) for name in TIMED}
            if self.timed
            else {}
        )


def example_texts(index) -> list[np.ndarray]:
    """The tokens of each example of an index, with its spans joined."""
    if index.pieces is not None:
        start, length, first = index.pieces
        texts = [
            index.stream.token[s : s + n] for s, n in zip(start, length, strict=True)
        ]
        return [np.concatenate(texts[a:b]) for a, b in itertools.pairwise(first)]
    spans = [(index.start, index.length)]
    if index.second is not None:
        spans.append((index.second, index.second_length))
    return [
        np.concatenate([index.stream.token[s[n] : s[n] + size[n]] for s, size in spans])
        for n in range(len(index.start))
    ]


def vocab(labels=("a", "b")) -> VocabInfo:
    special = np.arange(5000) < 9
    return VocabInfo(
        size=5000,
        pad_id=0,
        bos_id=1,
        eos_id=2,
        mask_id=3,
        unk_id=4,
        sentinel_ids=(5, 6, 7, 8),
        is_special=special,
        ordinary_ids=np.flatnonzero(~special).astype(np.int32),
        labels=labels,
    )


def assert_same_batch(one, other) -> None:
    """Asserts that both have the same arrays, in names, types and values."""
    assert list(one) == list(other)
    for name in one:
        assert one[name].dtype == other[name].dtype, name
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)


def concatenate(batches):
    """One batch with the rows of all batches, in order."""
    batches = list(batches)
    return {name: np.concatenate([b[name] for b in batches]) for name in batches[0]}
