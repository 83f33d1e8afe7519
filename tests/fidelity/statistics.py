"""Statistics of our batches, beside what the official rule gives on the same text.

A row `measured` of a file of facts names one of STATISTICS, which returns a pair: ours,
and the official rule's.
"""

# B batch, L length, R raw tokens an example

import math
from collections import Counter
from collections.abc import Callable
from random import Random

import numpy as np

from research.contract.batch import WORD
from tests.fidelity import official_rules
from tests.fidelity.our_batches import (
    NUM_DOCUMENTS,
    NUM_ROWS,
    VOCAB,
    batch_of,
    draw_documents,
    full_rows,
    objective_of,
    packed_batch,
    packed_pairs,
    stream_of,
    wrong_pairs,
)
from tests.fidelity.table import System
from tests.testing.example_batches import keys


def chosen_tokens(batch) -> tuple[np.ndarray, np.ndarray]:
    """What stands at the scored positions, and what stood there."""
    used = batch["weight"] > 0
    here = np.take_along_axis(batch["token"], batch["scored"], axis=1)
    return here[used], batch["target"][used]


def mask_fraction(system: System):
    here, _ = chosen_tokens(batch_of(system)[0])
    return np.mean(here == VOCAB.mask_id), 0.8


def random_fraction(system: System):
    here, target = chosen_tokens(batch_of(system)[0])
    return np.mean((here != VOCAB.mask_id) & (here != target)), 0.1


def frequent_random_tokens(system: System):
    """Share of the most frequent token among those that a random token replaced, in
    text in which the nth token is 1 / n as frequent as the first.
    """
    objective, length = objective_of(system)
    text, ids = full_rows(objective, length), VOCAB.ordinary_ids
    share = 1 / np.arange(1, len(ids) + 1)
    share /= share.sum()
    count = np.zeros(VOCAB.size, np.int64)
    count[ids] = 1e6 * share
    vocab = VOCAB._replace(token_count=count)
    text = text._replace(token=np.full_like(text.token, ids[-1]))
    batch = objective.corrupt(text, keys(NUM_ROWS), vocab, length)
    here, target = chosen_tokens(batch)
    random = here[(here != VOCAB.mask_id) & (here != target)]
    tokens = np.repeat(np.arange(VOCAB.size), count)  # of the corpus
    drawn = np.random.default_rng(0).choice(tokens, 10**6)
    theirs = drawn[drawn != ids[-1]]
    return np.mean(random == ids[0]), np.mean(theirs == ids[0])


def commonest_tokens(system: System):
    """Share of the commonest half of a row's tokens among the chosen, where these are
    ten times as frequent as the others.
    """
    objective, length = objective_of(system)
    text, ids = full_rows(objective, length), VOCAB.ordinary_ids
    common = ids[: len(ids) // 2]
    count = np.where(np.isin(np.arange(VOCAB.size), common), 1000, 100)
    vocab = VOCAB._replace(token_count=count)
    _, target = chosen_tokens(objective.corrupt(text, keys(NUM_ROWS), vocab, length))
    rng, theirs = np.random.default_rng(0), []
    for row in text.token[:50]:
        odds = np.where(VOCAB.is_special[row], 0, np.maximum(count[row], 1) ** -0.7)
        num = math.ceil(0.15 * len(row))
        theirs.extend(rng.choice(row, num, replace=False, p=odds / odds.sum()))
    return np.isin(target, common).mean(), np.isin(theirs, common).mean()


def tokens_of_a_text(system: System):
    """Of MASS: sentences of 5 to 100 tokens."""
    objective, length = objective_of(system)
    documents = draw_documents(NUM_DOCUMENTS)
    spans = objective.text_spec(length).spans(stream_of(documents), 0)
    official = [n for sizes in documents for n in sizes if 5 <= n <= 100]
    return spans.length.mean(), np.mean(official)


def electra_rows(system: System) -> tuple[np.ndarray, np.ndarray]:
    """Distinct positions and masks of each row [B, 2]: ours, the official rule's."""
    batch, text, _ = batch_of(system)
    used, rng = batch["weight"] > 0, Random(0)
    distinct = [len(set(p[u])) for p, u in zip(batch["scored"], used, strict=True)]
    masks = (batch["token"] == VOCAB.mask_id).sum(axis=1)
    words, draws = text.length[0], int(used.sum(axis=1)[0])
    official = [official_rules.electra_mask(words, draws, rng) for _ in range(20_000)]
    return np.stack([distinct, masks], axis=1), np.array(official)


def num_chosen(system: System):
    batch, _, length = batch_of(system)
    return batch["weight"].sum(axis=1).mean(), rounded_share(system, length)


def spread_of_chosen(system: System):
    """Standard deviation of a row's number, in those of a binomial distribution, which
    it has officially: each token is chosen by itself.
    """
    batch, _, length = batch_of(system)
    binomial = math.sqrt(0.15 * 0.85 * length)
    return batch["weight"].sum(axis=1).std() / binomial, 1.0


def chosen_or_shuffled(system: System):
    """Scored tokens of a row, 15 % and 5 % of it."""
    batch, _, length = batch_of(system)
    return batch["weight"].sum(axis=1).mean(), 0.2 * length


def two_way_rows(system: System):
    """Share of UniLM's rows whose first token type is that of a pair."""
    return np.mean(packed_batch(system)[0]["token_type"][:, 0] == 0), 1 / 3


def tokens_of_a_row(token_type: int) -> Callable:
    """Of UniLM's rows with this first token type: their mean number of tokens.

    Officially they are full: a document's sentences up to the row's end, and what is
    left (rows of one lone sentence as well).
    """

    def tokens(system: System):
        batch, _ = packed_batch(system)
        size = (batch["segment"] > 0).sum(axis=1)
        (_, length), full = objective_of(system), []
        for sentences in draw_documents(NUM_DOCUMENTS):
            rest = list(sentences)
            while rest:
                count = 0
                while rest and (not count or count < length - 3):
                    count += rest.pop(0)
                full.append(min(count, length - 3) + (2 if token_type in (2, 3) else 3))
        return size[batch["token_type"][:, 0] == token_type].mean(), np.mean(full)

    return tokens


def rounded_share(system: System, length: int) -> float:
    """15 % of a row; RoBERTa's code rounds at random, so that the mean is exact."""
    return 0.15 * length if system.name in ("roberta", "xlmr") else round(0.15 * length)


def scored_mask(batch, length: int) -> np.ndarray:
    """[B, L] bool: the scored positions."""
    mask = np.zeros((len(batch["token"]), length), bool)
    row, slot = np.nonzero(batch["weight"] > 0)
    mask[row, batch["scored"][row, slot]] = True
    return mask


def run_lengths(mask) -> np.ndarray:
    """Lengths of the unbroken runs of all rows."""
    edges = np.diff(np.pad(np.asarray(mask, np.int8), [(0, 0), (1, 1)]), axis=1)
    begin, end = np.nonzero(edges > 0), np.nonzero(edges < 0)
    return end[1] - begin[1]


def spanbert_runs(system: System) -> tuple[np.ndarray, np.ndarray]:
    """Lengths of runs: ours, and the official rule's on the same words."""
    batch, text, length = batch_of(system)
    starts, rng = (text.flags & WORD) > 0, Random(0)
    official = [official_rules.spanbert_mask(list(row), rng) for row in starts]
    return run_lengths(scored_mask(batch, length)), run_lengths(np.array(official))


def shifted_tokens(system: System) -> tuple[np.ndarray, np.ndarray]:
    """What is read in place of chosen tokens by the position after them; the tokens."""
    batch, _, length = batch_of(system)
    used = (batch["weight"] > 0) & (batch["scored"] + 1 < length)
    after = np.minimum(batch["scored"] + 1, length - 1)
    here = np.take_along_axis(batch["token"], after, axis=1)
    return here[used], batch["target"][used]


def shifted_masks(system: System):
    return np.mean(shifted_tokens(system)[0] == VOCAB.mask_id), 0.8


def shifted_random_tokens(system: System):
    here, target = shifted_tokens(system)
    return np.mean((here != VOCAB.mask_id) & (here != target)), 0.1


def tiles(system: System) -> tuple[np.ndarray, np.ndarray]:
    """Chosen tokens [B, L] of rows of GPT-BERT at step 0: ours, the official rule's."""
    batch, _, length = batch_of(system)
    rng = Random(0)
    official = [official_rules.gpt_bert_mask(length, 0.3, rng) for _ in range(1000)]
    return scored_mask(batch, length), np.array(official)


def albert_runs(system: System) -> tuple[np.ndarray, np.ndarray]:
    batch, text, length = batch_of(system)
    rng, official = Random(0), []
    budget = int(batch["weight"].sum(axis=1).max())
    for row in (text.flags & WORD) > 0:
        begins = np.flatnonzero(row)
        words = np.diff(np.append(begins, len(row)))
        masked = official_rules.albert_mask(list(words), budget, rng)
        official.append(np.repeat(masked, words))
    return run_lengths(scored_mask(batch, length)), run_lengths(np.array(official))


def xlnet_masks(system: System) -> tuple[np.ndarray, np.ndarray]:
    """Targets [B, L]: ours, of forward rows; the official rule's on the same words."""
    batch, text, length = batch_of(system)
    row, slot = np.nonzero(batch["weight"] > 0)
    ours = np.zeros((len(text.token), length), bool)
    ours[row, batch["position"][row, batch["scored"][row, slot]]] = True
    starts, rng = (text.flags[:, :length] & WORD) > 0, Random(0)
    half = length // 2
    official = [
        official_rules.xlnet_mask(list(row[:half]), 43, rng)
        + official_rules.xlnet_mask(list(row[half : length - 3]), 42, rng)
        for row in starts
    ]
    return ours, np.array(official)


def bart_counts(system: System) -> tuple[np.ndarray, np.ndarray]:
    """Masks and remaining words of a word, summed over rows: ours, official."""
    batch, text, _ = batch_of(system)
    words = ((text.flags & WORD) > 0).sum(axis=1)
    encoder = batch["encoder_token"]
    masks = (encoder == VOCAB.mask_id).sum(axis=1)
    plain = ((encoder != VOCAB.pad_id) & (encoder != VOCAB.mask_id)).sum(axis=1) - 2
    share = plain.sum() / text.length.sum()
    rng = Random(0)
    official = np.array([official_rules.bart_masks(int(n), rng) for n in words])
    total = words.sum()
    return (
        np.array([masks.sum() / total, share]),
        np.array([official[:, :2].sum() / total, official[:, 2].sum() / total]),
    )


def mass_begins(system: System) -> tuple[np.ndarray, np.ndarray]:
    """Share of spans that begin and end the sentence: ours, official."""
    batch, _, length = batch_of(system)
    first = batch["decoder_position"][:, 0]
    last = batch["decoder_position"].max(axis=1) + 1
    end = batch["encoder_position"].max(axis=1) - 1
    rng = Random(0)
    drawn = np.array([official_rules.mass_begin(length, rng) for _ in range(20_000)])
    return (
        np.array([np.mean(first == 0), np.mean(last >= end)]),
        np.array([np.mean(drawn[:, 0] == 1), np.mean(drawn[:, 0] == drawn[:, 1])]),
    )


def noise_counts(system: System) -> tuple[np.ndarray, np.ndarray]:
    """Hidden tokens, spans, and the fraction of spans of one token: ours, official."""
    batch, text, _ = batch_of(system)
    objective, raw = objective_of(system)[0], text.length[0]
    hidden = round(raw * objective.rate)
    spans = round(hidden / objective.mean_span)
    target, used = batch["target"], batch["weight"] > 0
    sentinel = np.isin(target, VOCAB.sentinel_ids)
    plain = used & ~sentinel & (target != VOCAB.eos_id)
    ours = plain.sum(axis=1).mean(), sentinel.sum(axis=1).mean()
    ones = np.mean(run_lengths(plain) == 1)
    return np.array([*ours, ones]), np.array(
        [hidden, spans, (spans - 1) / (hidden - 1)]
    )


def pairs_by(rule: Callable) -> Callable:
    """Rows of two segments: ours, and an official rule's on the same text."""

    def pairs(system: System) -> tuple[np.ndarray, np.ndarray]:
        ours, documents, length = packed_pairs(system)
        rows = rule(documents, length, Random(0))
        return ours, np.array([row[:3] for row in rows])

    return pairs


EPOCHS = 40
"""As many as BERT's and ALBERT's texts were read in."""


def repeats_of_wrong_pairs(system: System):
    """How often a pair of two documents is read in EPOCHS epochs, in the mean."""
    documents, data = draw_documents(60), system.config(system.sizes[0]).data
    ours: Counter = Counter()
    for epoch in range(EPOCHS):
        ours.update(map(tuple, wrong_pairs(system, documents, epoch).tolist()))
    objective, length = objective_of(system)
    rate, rng = objective.text_spec(length).other_document_rate, Random(0)
    copies = [
        official_rules.bert_pairs(documents, length, rng, rate)
        for _ in range(data.dupe_factor)
    ]
    official: Counter = Counter()
    for epoch in range(EPOCHS):
        rows = copies[epoch % len(copies)]
        official.update((r.begin, r.second_begin) for r in rows if r.random_next)
    return tuple(count.total() / len(count) for count in (ours, official))


def of_pair(make: Callable, reduce: Callable) -> Callable:
    """A statistic that reduces what `make` returns for us and for the official rule."""
    return lambda system: tuple(map(reduce, make(system)))


def single_rows(sizes) -> float:
    return np.mean(sizes[:, 1] == 0)


def first_fraction(sizes) -> float:
    two = sizes[sizes[:, 1] > 0]
    return np.mean(two[:, 0] / two.sum(axis=1))


def masked_tokens(system: System):
    """Of the text's tokens; those of the official rule at 1,000 even rates."""
    objective, length = objective_of(system)
    objective = objective.with_fields(strata=min(objective.strata, NUM_ROWS))
    text = full_rows(objective, length)
    batch = objective.corrupt(text, keys(NUM_ROWS), VOCAB, length)
    masks = batch["token"] == VOCAB.mask_id
    return masks.sum() / batch["text_weight"].sum(), 0.5 + 0.5e-3


STATISTICS: dict[str, Callable] = {
    "fraction of tokens that are masks": masked_tokens,
    "fraction of masks among chosen tokens": mask_fraction,
    "fraction of random tokens among chosen tokens": random_fraction,
    "chosen tokens of a full row": num_chosen,
    "spread of the number of chosen tokens": spread_of_chosen,
    "chosen and shuffled tokens of a full row": chosen_or_shuffled,
    "rows of two-way attention": two_way_rows,
    "tokens of a row of source and target": tokens_of_a_row(4),
    "tokens of a left-to-right row": tokens_of_a_row(2),
    "tokens of a right-to-left row": tokens_of_a_row(3),
    "random tokens that are the most frequent one": frequent_random_tokens,
    "tokens of a text": tokens_of_a_text,
    "share of the commonest tokens among the chosen": commonest_tokens,
    "distinct chosen positions of a full row": of_pair(
        electra_rows, lambda rows: rows[:, 0].mean()
    ),
    "masks of a full row": of_pair(electra_rows, lambda rows: rows[:, 1].mean()),
    "tokens of a run of masked spans": of_pair(spanbert_runs, np.mean),
    "runs of one token, of masked spans": of_pair(
        spanbert_runs, lambda runs: np.mean(runs == 1)
    ),
    "masks among the chosen tokens of shifted rows": shifted_masks,
    "random tokens among the chosen tokens of shifted rows": shifted_random_tokens,
    "tokens of a run of masked tiles": of_pair(tiles, lambda m: run_lengths(m).mean()),
    "runs of one token, of masked tiles": of_pair(
        tiles, lambda mask: np.mean(run_lengths(mask) == 1)
    ),
    "chosen tokens of a row of tiles": of_pair(
        tiles, lambda mask: mask.sum(axis=1).mean()
    ),
    "tokens of a run of masked n-grams": of_pair(albert_runs, np.mean),
    "runs of one token, of masked n-grams": of_pair(
        albert_runs, lambda runs: np.mean(runs == 1)
    ),
    "targets of the first half of a row": of_pair(
        xlnet_masks, lambda mask: mask[:, :256].sum(axis=1).mean()
    ),
    "tokens of a run of targets": of_pair(
        xlnet_masks, lambda mask: run_lengths(mask).mean()
    ),
    "masks a word": of_pair(bart_counts, lambda counts: counts[0]),
    "fraction of text that remains": of_pair(bart_counts, lambda counts: counts[1]),
    "spans at the start": of_pair(mass_begins, lambda shares: shares[0]),
    "spans at the end": of_pair(mass_begins, lambda shares: shares[1]),
    "hidden tokens": of_pair(noise_counts, lambda counts: counts[0]),
    "hidden spans": of_pair(noise_counts, lambda counts: counts[1]),
    "hidden spans of one token": of_pair(noise_counts, lambda counts: counts[2]),
    "rows of one segment": of_pair(
        pairs_by(official_rules.electra_segments), single_rows
    ),
    "first segment of two": of_pair(
        pairs_by(official_rules.electra_segments), first_fraction
    ),
    "rows of two documents": of_pair(
        pairs_by(official_rules.bert_pairs), lambda rows: rows[:, 2].mean()
    ),
    "readings of a pair of two documents in 40 epochs": repeats_of_wrong_pairs,
    "first segment of a pair": of_pair(
        pairs_by(official_rules.bert_pairs), first_fraction
    ),
}
"""Name of a row -> system to ours and the official rule's value."""


def within(value: float, official: float, tolerance: float) -> bool:
    return math.isclose(value, official, abs_tol=tolerance + 1e-9, rel_tol=0)
