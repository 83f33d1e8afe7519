"""Predictions of a run that reads pictures for given rows, and the nearest captions."""

# B rows, K scored tokens, C scored regions, V vocabulary, N captions, P pictures

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from research import networks
from research.contract.batch import Example
from research.data.read.formats.captioned import IMAGE
from research.objectives.images.image_text import MATCH

TOP = 5
"""Guesses of a token, and nearest captions of a picture."""

MOST_PAIRS = 256
"""Captions that a model which reads both sides at once compares with a picture."""

BLOCK = 16
"""Pictures, and texts, at most, of which such a model reads all pairs in one pass."""


class Guess(NamedTuple):
    """A token, a class or a caption, and its probability or cosine."""

    text: str
    value: float
    is_right: bool = False


class Guesses(NamedTuple):
    """What is predicted for a row."""

    words: list[list[Guess]]  # [K], for the positions that are scored
    regions: list[list[Guess]]  # [C], likewise
    match: float | None  # probability that picture and text belong together


def guesses(run: Any, batch: Mapping[str, np.ndarray]) -> list[Guesses]:
    """What a run of image_text predicts for each row of a batch."""
    objective = run.objective
    asks_match = "match_label" in batch
    heads = {"region_target": "region"}

    def predict(params: Any, batch: Any) -> dict[str, jax.Array]:
        def forward(net: networks.BoundNetwork) -> dict[str, jax.Array]:
            states = net.states(objective.group(batch))

            def at(name: str) -> jax.Array:
                return jnp.take_along_axis(states, batch[name][..., None], axis=1)

            logits = net.readout(at("scored")).logits()
            found = {"word": jax.nn.softmax(logits)}
            for target, head in heads.items():
                if target in batch:
                    of_head = net.head(head, at("region_scored"))
                    found[head] = jax.nn.softmax(of_head)
            if asks_match:
                prefix = MATCH if objective.match == "separate" else ""
                group = objective.group(batch, prefix)
                pooled = net.states(group, scored=objective.pooled(batch))
                of_match = objective.pooled_logits(net, "match", pooled)
                found["match"] = jax.nn.softmax(of_match)
            return found

        return networks.apply(run.network, params, forward)

    arrays = {name: jnp.asarray(array) for name, array in batch.items()}
    found = jax.device_get(jax.jit(predict)(run.params, arrays))
    vocabulary = run.vocabulary
    names = objective.store.class_names

    def piece(token: int) -> str:
        return vocabulary.piece_name(token)

    is_one = int(getattr(objective, "match_label", "") == "matched")
    rows = []
    for row in range(len(batch["scored"])):
        words = [
            _best(p, t, vocabulary.piece_name)
            for p, t, w in zip(
                found["word"][row],
                batch["target"][row],
                batch["weight"][row],
                strict=True,
            )
            if w > 0
        ]
        regions = []
        if "region" in found:
            each = zip(
                found["region"][row],
                batch["region_target"][row],
                batch["region_weight"][row],
                strict=True,
            )
            regions = [_best(p, t, lambda n: names[n]) for p, t, w in each if w > 0]
        match = float(found["match"][row][is_one]) if asks_match else None
        rows.append(Guesses(words, regions, match))
    return rows


def _best(probability: np.ndarray, target: int, name: Any) -> list[Guess]:
    """The most probable ones; the right one is last if it is not one of them."""
    top = np.argsort(-probability, kind="stable")[:TOP].tolist()
    top += [int(target)] * (int(target) not in top)
    return [Guess(str(name(n)), float(probability[n]), n == target) for n in top]


def nearest_captions(
    model: Any, texts: Sequence[str], of: Sequence[int], shown: Sequence[int]
) -> list[list[Guess]]:
    """The captions nearest to each of some pictures of the run's store, best first.

    The right one is last if it is not among them. A caption that several pictures have
    is one, and right for each of them.

    A run of clip compares them by the cosines of vectors; a run that reads both sides
    at once, by the probability that they belong together, or its score.

    Args:
      model: the result of `open_run`.
      texts: [N] captions.
      of: [N], the picture of each.
      shown: the pictures.
    """
    run = model.run
    if hasattr(run.objective, "picture_vectors"):
        vectors = model.encode(texts, normalize=True)
        pictures = model.encode_stored(shown)
        pictures /= np.maximum(np.linalg.norm(pictures, axis=1, keepdims=True), 1e-12)
        values = pictures @ vectors.T
    elif getattr(run.objective, "asks_match", False):
        texts, of = texts[:MOST_PAIRS], of[:MOST_PAIRS]
        values = match_values(run, texts, shown)
    else:
        return []
    found, distinct = [], [*{text: n for n, text in enumerate(texts)}.values()]
    for row, number in zip(values, shown, strict=True):
        own = {
            text for text, picture in zip(texts, of, strict=True) if picture == number
        }
        order = sorted(distinct, key=lambda n: -row[n])
        nearest = [Guess(texts[n], float(row[n]), texts[n] in own) for n in order[:TOP]]
        right = [rank for rank, n in enumerate(order, 1) if texts[n] in own]
        if right and right[0] > TOP:
            best = order[right[0] - 1]
            text = f"{texts[best]} (rank {right[0]} of {len(order)})"
            nearest.append(Guess(text, float(row[best]), is_right=True))
        found.append(nearest)
    return found


def match_values(run: Any, texts: Sequence[str], pictures: Sequence[int]) -> np.ndarray:
    """[P, N]: the objective's `match_values` of each picture with each text.

    Each pair is a row of its own, with nothing hidden.
    """
    objective, vocab = run.objective, run.vocabulary.vocab
    length = run.config.data.length
    height, width = min(BLOCK, len(pictures)), min(BLOCK, len(texts))

    @jax.jit
    def predict(params: Any, batch: Any) -> jax.Array:
        def forward(net: networks.BoundNetwork) -> jax.Array:
            return objective.match_values(net, batch, text_copies=height)

        return networks.apply(run.network, params, forward)

    found = np.empty((len(pictures), len(texts)), np.float32)
    for first in range(0, len(pictures), height):
        row = np.minimum(np.arange(first, first + height), len(pictures) - 1)
        for begin in range(0, len(texts), width):
            column = np.minimum(np.arange(begin, begin + width), len(texts) - 1)
            pairs = [(texts[n], pictures[m]) for m in row for n in column]
            example = pair_examples(run.vocabulary, pairs, length - 2)
            batch = objective.pair_input(example, vocab, length)
            values = np.asarray(predict(run.params, batch))
            found[np.ix_(row, column)] = values.reshape(height, width)
    return found


def pair_examples(
    vocabulary: Any, pairs: Sequence[tuple[str, int]], length: int
) -> Example:
    """Texts and the numbers of their pictures, as examples of `length` raw tokens."""
    token = np.full((len(pairs), length), vocabulary.vocab.pad_id, np.int32)
    size = np.zeros(len(pairs), np.int32)
    for row, (text, _) in enumerate(pairs):
        own = vocabulary.encode(text)[0][:length]
        token[row, : len(own)], size[row] = own, len(own)
    zero = np.zeros_like(size)
    number = np.array([picture for _, picture in pairs], np.int32)
    return Example(
        token,
        np.zeros(token.shape, np.uint8),
        size,
        zero - 1,
        first_length=size,
        corpus=zero,
        step=zero.astype(np.int64),
        document=zero,
        number=zero,
        arrays={IMAGE: np.repeat(number[:, None], length, axis=1)},
    )
