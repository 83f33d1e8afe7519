"""Guards of what an objective hides, and of what it scores."""

# B batch, L length, K scored positions, R raw tokens an example

from typing import Any

import jax.numpy as jnp
import numpy as np

from research import objectives
from research.contract.batch import (
    BACKWARD,
    NEXT,
    OTHER_DOCUMENT,
    PARAGRAPH,
    SENTENCE,
    WORD,
    rank_mask,
)
from research.data.read import lexicon
from research.objectives.losses.contrastive import info_nce
from tests.fidelity.guards.registry import guard, phrase
from tests.fidelity.our_batches import VOCAB, batch_of, full_rows, objective_of
from tests.fidelity.statistics import run_lengths, scored_mask
from tests.fidelity.table import System
from tests.testing.example_batches import keys


def objective_with(system: System, **fields: Any) -> Any:
    """The objective at the first published size, with other fields."""
    own = system.config(system.sizes[0]).objective.to_dict()
    return objectives.make_objective(**own | fields)


def length_of(system: System) -> int:
    """data.length at the first published size."""
    return system.config(system.sizes[0]).data.length


def rows_of(objective: Any, row_length: int, num: int = 300, **changes: Any):
    """Texts that fill a row, changed, and the batch of them."""
    text = full_rows(objective, row_length, num)._replace(**changes)
    return text, objective.corrupt(text, keys(num), VOCAB, row_length)


def pair_rows(objective: Any, length: int, label: int, num: int = 300):
    """Pairs with a label, and the batch of them."""
    return rows_of(objective, length, num, label=np.full(num, label, np.int32))


def parts_of(system: System) -> dict[str, Any]:
    """The objectives of a mixture or sum."""
    config = system.config(system.sizes[0])
    return objectives.make_objective(**config.objective).members


def replacements(batch: dict) -> np.ndarray:
    """What stands where a token was replaced by another one that is not the mask."""
    used = batch["weight"] > 0
    here = np.take_along_axis(batch["token"], batch["scored"], axis=1)[used]
    return here[(here != batch["target"][used]) & (here != VOCAB.mask_id)]


@guard("targets of a row of 512")
def most_targets(system: System):
    return objectives.make_objective(**system.config("base").objective).num_masked(512)


@guard("tokens that 15 % are taken of")
def tokens_that_count(system: System):
    """A row of 28 tokens with its specials has 4 targets, one without them 3."""
    objective, _ = objective_of(system)
    specials = {"mlm": 2, "distill": 2, "unilm": 3}
    specials = specials[system.config(system.sizes[0]).objective.name]
    counts = []
    for raw in range(20, 60):
        text = full_rows(objective, raw + specials, 8)
        batch = objective.corrupt(text, keys(8), VOCAB, raw + specials)
        counts.append(batch["weight"].sum(axis=1).max())
    raw = np.arange(20, 60)
    rounded = {
        "up": lambda n: np.ceil(0.15 * n - 1e-9),
        "nearest": lambda n: np.maximum(np.rint(0.15 * n), 1),
    }[getattr(getattr(objective, "_base", objective), "rounding", "nearest")]
    return phrase(
        {
            "with the specials": np.array_equal(counts, rounded(raw + specials)),
            "without the specials": np.array_equal(counts, rounded(raw)),
        }
    )


@guard("random tokens")
def random_tokens(system: System):
    """Of texts of five frequent tokens; specials are a fourth of the vocabulary."""
    objective = objective_with(system, random_fraction=0.2)
    often = VOCAB.ordinary_ids[:5]
    text = full_rows(objective, length_of(system))
    token = often[text.token % len(often)].astype(np.int32)
    count = np.zeros(VOCAB.size, np.int64)
    count[often] = 1000
    vocab = VOCAB._replace(token_count=count)
    batch = objective.corrupt(
        text._replace(token=token), keys(len(token)), vocab, length_of(system)
    )
    found = batch["encoder_token" if "encoder_token" in batch else "token"]
    written = (vocab.pad_id, vocab.bos_id, vocab.eos_id, vocab.mask_id)
    other = found[~np.isin(found, (*written, *often))]
    special = vocab.is_special[other]
    return phrase(
        {
            "drawn from the corpus": not len(other),
            "any entry": special.any(),
            "ordinary tokens, uniformly": len(other) and not special.any(),
        }
    )


@guard("anchors")
def anchors(system: System):
    """Of rows whose words have one and nine tokens in turn, and spans of one word: if
    any token is an anchor, nine in ten spans are long words.
    """
    objective = objective_with(system, max_words=1)
    text = full_rows(objective, length_of(system))
    inside = np.arange(text.flags.shape[1]) % 10
    flags = np.tile(np.isin(inside, (0, 1)), (len(text.flags), 1)).astype(np.uint8)
    _, batch = rows_of(objective, length_of(system), flags=flags)
    mask = scored_mask(batch, length_of(system))[:, 1:-1]
    short, long = (mask[:, inside == n].sum() for n in (0, 1))
    merged = run_lengths(scored_mask(batch_of(system)[0], length_of(system))).max()
    return phrase(
        {
            "any unmasked token; spans may touch and merge": long > 5 * short
            and merged > 10 * 3,
            "words; spans do not overlap": long < 2 * short,
        }
    )


@guard("end of the last span")
def last_span(system: System):
    """Rows whose words have five tokens: whether each masked run is of whole words."""
    objective, length = objective_of(system)
    text = full_rows(objective, length)
    starts = np.arange(text.flags.shape[1]) % 5 == 0
    flags = np.tile(starts, (len(text.flags), 1)).astype(np.uint8)
    batch = objective.corrupt(
        text._replace(flags=flags), keys(len(flags)), VOCAB, length
    )
    within = run_lengths(scored_mask(batch, length)) % 5 > 0
    return phrase(
        {
            "where the budget ends, in the middle of a word as well": within.any(),
            "a whole word": not within.any(),
        }
    )


@guard("boundary targets of spans at the row's ends")
def boundary_targets(system: System):
    objective, length = objective_of(system)
    _, batch = rows_of(objective, length)
    used = batch["weight"] > 0
    at_edge = used & ((batch["left"] == 0) | (batch["right"] == length - 1))
    assert at_edge.any()
    predicted = batch["offset"][at_edge] < objective.boundary_targets
    return phrase(
        {"none": not predicted.any(), "predicted from [CLS] and [SEP]": predicted.all()}
    )


@guard("n-grams")
def ngrams_at_specials(system: System):
    """Of rows that may be masked up to a half, whether a separator is ever chosen."""
    objective = objective_with(system, max_predictions=0, rate=0.5)
    _, batch = pair_rows(objective, length_of(system), NEXT)
    used = batch["weight"] > 0
    chosen = np.isin(batch["target"][used], (VOCAB.bos_id, VOCAB.eos_id)).any()
    return phrase({"may cross a separator": chosen, "end before a special": not chosen})


@guard("tokens of a masked unit")
def draws_of_a_unit(system: System):
    """Whether a masked run has both masks and other tokens."""
    objective = next(iter(parts_of(system).values()))
    part = next(p for p in parts_of(system).values() if p.unit == "lexicon")
    length = length_of(system)
    _, batch = pair_rows(part, length, NEXT)
    assert part.draw_unit == objective.draw_unit
    row, slot = np.nonzero(batch["weight"] > 0)
    at = batch["scored"][row, slot]
    masked = batch["token"][row, at] == VOCAB.mask_id
    joined = (row[1:] == row[:-1]) & (at[1:] == at[:-1] + 1)
    differ = (masked[1:] != masked[:-1]) & joined
    # A run that is drawn once differs nowhere but between two units that touch.
    share = differ.sum() / joined.sum()
    return phrase(
        {
            "mask, random or kept is drawn for each": 0.25 < share < 0.4,
            "drawn once for the unit": share < 0.2,
        }
    )


@guard("units outside phrases and entities")
def other_units(system: System):
    """Of words of three tokens that are no entries: whether each is chosen whole."""
    part = next(p for p in parts_of(system).values() if p.unit == "lexicon")
    text = full_rows(part, length_of(system))
    outside = np.setdiff1d(VOCAB.ordinary_ids, VOCAB.lexicon.token[:, :1])
    token = outside[text.token % len(outside)].astype(np.int32)
    inside = np.arange(token.shape[1])
    flags = np.tile(inside % 3 == 0, (len(token), 1)).astype(np.uint8)
    size = np.full_like(text.length, token.shape[1] // 3 * 3)
    _, batch = rows_of(
        part,
        length_of(system),
        token=np.where(inside < size[:, None], token, VOCAB.pad_id).astype(np.int32),
        flags=np.where(inside < size[:, None], flags, 0).astype(np.uint8),
        length=size,
        first_length=size,
    )
    mask = scored_mask(batch, length_of(system))
    same_rate = abs(mask.sum() / size.sum() - part.rate) < 0.02
    whole = (run_lengths(mask) % 3 == 0).all()
    return phrase(
        {
            "words, at the same probability": whole and same_rate,
            "tokens, at the same probability": not whole and same_rate,
        }
    )


@guard("number of masked tokens")
def number_of_masked_tokens(system: System):
    """Of a batch of 300 rows: a fixed number, or one for each row."""
    batch, _, length = batch_of(system)
    rows, total = batch["weight"].sum(axis=1), batch["weight"].sum()
    spread = rows.std() / np.sqrt(0.15 * 0.85 * length)
    return phrase(
        {
            "of a batch ceil(0.15 x tokens)": total == np.ceil(0.15 * length * 300),
            "each token by itself": 0.9 < spread < 1.1
            and abs(total - 0.15 * length * 300) > 0,
        }
    )


@guard("separators")
def separators(system: System):
    objective, length = objective_of(system)
    _, batch = rows_of(objective, length)
    used = batch["weight"] > 0
    chosen = np.isin(batch["target"][used], (VOCAB.bos_id, VOCAB.eos_id)).any()
    return phrase({"may be chosen": chosen, "never chosen": not chosen})


@guard("first token of a row")
def first_token(system: System):
    """Of text in one language, which begins with an ordinary token."""
    objective = objective_with(system, languages="0")
    _, length = objective_of(system)
    _, batch = rows_of(objective, length)
    chosen = ((batch["weight"] > 0) & (batch["scored"] == 0)).any()
    return phrase({"may be chosen": chosen, "never chosen": not chosen})


def _translations(system: System, length: int):
    """Rows of two paragraphs, each half as long, and their batch."""
    objective, _ = objective_of(system)
    text = full_rows(objective, length)
    half = text.flags.shape[1] // 2
    flags = text.flags & ~np.uint8(PARAGRAPH)
    flags[:, [0, half]] |= np.uint8(PARAGRAPH | WORD | SENTENCE)
    batch = objective.corrupt(
        text._replace(flags=flags), keys(len(flags)), VOCAB, length
    )
    return half, batch


@guard("positions of the second sentence")
def second_positions(system: System):
    half, batch = _translations(system, 64)
    position = batch["position"][:, half + 2]
    return phrase(
        {
            "from 0": (position == 0).all(),
            "after the first": (position == half + 2).all(),
        }
    )


@guard("causal language model")
def causal_model(system: System):
    objective = objective_with(system, languages="0", predict="next")
    _, length = objective_of(system)
    text, batch = rows_of(objective, length)
    every = np.array_equal(batch["target"], text.token[:, 1:length])
    every &= bool((batch["weight"] == 1).all())
    return phrase({"each token but the first of a row": every})


@guard("fraction of rows by their second segment")
def structural_labels(system: System):
    objective, length = objective_of(system)
    rate = objective.text_spec(length).other_document_rate
    _, batch = pair_rows(objective, length, NEXT, 3000)
    previous = (1 - rate) * batch["label"].mean()
    thirds = np.allclose([rate, previous], 1 / 3, atol=0.02)
    return phrase({"a third each: next, previous, of another document": thirds})


@guard("rows without a second sentence")
def lone_sentences(system: System):
    """How a pair of two documents, which is made of a lone sentence, counts."""
    objective, length = objective_of(system)
    _, batch = pair_rows(objective, length, OTHER_DOCUMENT)
    swapped = (batch["label"] == 1).all() and (batch["label_weight"] == 1).all()
    return phrase(
        {
            "take B from another document, and count as swapped": swapped,
            "have no label": not batch["label_weight"].any(),
        }
    )


@guard("decoder's first token")
def decoder_start(system: System):
    first = batch_of(system)[0]["decoder_token"][:, 0]
    names = {"eos": VOCAB.eos_id, "bos": VOCAB.bos_id, "pad": VOCAB.pad_id}
    return phrase({name: (first == number).all() for name, number in names.items()})


@guard("order of noises")
def order_of_noises(system: System):
    """Masks stand where they would without permuted sentences, so they come later; a
    rotated row is a row that was not, turned, so rotation is last.
    """
    rates = {"infill_rate": 0.0, "insert_rate": 0.2, "random_fraction": 0.0}
    length = length_of(system)
    objective = objective_with(system, **rates)
    unpermuted = objective_with(system, **rates, permute_rate=0.0)
    rotated = objective_with(system, **rates, rotate_rate=1.0)
    plain, without, turned = (
        rows_of(each, length, 8)[1]["encoder_token"]
        for each in (objective, unpermuted, rotated)
    )
    inserted_after = np.array_equal(plain == VOCAB.mask_id, without == VOCAB.mask_id)
    is_turned = []
    for one, other in zip(plain, turned, strict=True):
        one, other = (row[~np.isin(row, (0, 1, 2))] for row in (one, other))
        turns = (np.array_equal(np.roll(one, n), other) for n in range(len(one)))
        is_turned.append(any(turns))
    both = inserted_after and all(is_turned)
    return phrase({"sentences, masks, rotation": both})


@guard("end of a sentence")
def sentence_ends(system: System):
    """Whether permuted rows are made of the sentences that the text's flags say."""
    objective = objective_with(system, infill_rate=0.0, random_fraction=0.0)
    text, batch = rows_of(objective, length_of(system), 20)
    made_of = []
    for token, flags, row in zip(
        text.token, text.flags, batch["encoder_token"], strict=True
    ):
        begins = np.flatnonzero(flags & SENTENCE)
        pieces = [p.tolist() for p in np.split(token, begins[begins > 0])]
        rest = row[1 : 1 + len(token)].tolist()
        while rest:
            fits = [p for p in pieces if rest[: len(p)] == p]
            if not fits:
                break
            pieces.remove(fits[-1])
            rest = rest[len(fits[-1]) :]
        made_of.append(not rest)
    return phrase({"the sentences of the text": all(made_of)})


@guard("tokens of a raw text and of a target at length 512")
def raw_and_target(system: System):
    objective, length = objective_of(system)
    specs = objective.batch_spec(length)
    return [objective.text_spec(length).length, specs["target"].shape[0]]


@guard("length of a target")
def target_length(system: System):
    objective, length = objective_of(system)
    longest = objective.batch_spec(length)["target"].shape[0]
    parts = [p.batch_spec(length)["target"].shape[0] for p in parts_of(system).values()]
    return phrase(
        {
            "512": longest == 512,
            "as long as the longest denoiser needs": longest == max(parts) != 512,
        }
    )


@guard("lengths of spans")
def span_lengths(system: System):
    """Of a denoiser with spans of 64: their standard deviation over the mean."""
    length = length_of(system)
    part = parts_of(system)["x3"]
    _, batch = rows_of(part, length)
    plain = (batch["weight"] > 0) & ~np.isin(
        batch["target"], (*VOCAB.sentinel_ids, VOCAB.eos_id)
    )
    sizes = run_lengths(plain)
    fixed = len({row.sum() for row in plain}) == 1
    spread = sizes.std() / sizes.mean()
    return phrase(
        {
            "a fixed number of spans, all divisions equally likely": fixed
            and spread > 0.5,
            "from a normal distribution with the given mean": not fixed,
        }
    )


@guard("mode token")
def mode_token(system: System):
    length = length_of(system)
    firsts = {}
    for name, part in parts_of(system).items():
        _, batch = rows_of(part, length, 8)
        firsts[name] = set(batch["encoder_token"][:, 0])
    one_each = all(len(first) == 1 for first in firsts.values())
    modes = {part.mode for part in parts_of(system).values()}
    distinct = {min(first) for first in firsts.values()}
    return phrase(
        {"the first of the encoder": one_each and len(distinct) == len(modes)}
    )


@guard("two replaced mentions in succession")
def replaced_in_succession(system: System):
    _, batch = rows_of(*objective_of(system))
    used = batch["mention_weight"] > 0
    replaced = (batch["replaced"] == 1) & used
    both = (replaced[:, 1:] & replaced[:, :-1]).any()
    return phrase({"never": not both and replaced.any(), "may be": both})


@guard("mentions")
def mentions(system: System):
    """Whether mentions are exactly the entries of the lexicon in the text."""
    objective, length = objective_of(system)
    text, batch = rows_of(objective, length)
    arrays = text.token, text.flags, text.length
    found = lexicon.match(*arrays, VOCAB.lexicon, eos_id=VOCAB.eos_id) >= 0
    count = np.minimum(found.sum(axis=1), objective.num_mentions(length))
    ours = batch["mention_weight"].sum(axis=1)
    return phrase(
        {
            "entries of a lexicon": (ours <= count).all()
            and ours.mean() > 0.9 * count.mean()
        }
    )


@guard("name of a new entity")
def entity_names(system: System):
    """The new token of a mention is always an entry of the lexicon."""
    objective, length = objective_of(system)
    _, batch = rows_of(objective, length)
    row, slot = np.nonzero((batch["replaced"] == 1) & (batch["mention_weight"] > 0))
    before, after = batch["before"][row, slot], batch["after"][row, slot]
    entries = {
        tuple(t[:n])
        for t, n in zip(VOCAB.lexicon.token, VOCAB.lexicon.size, strict=True)
    }
    written = [
        tuple(batch["token"][r, a + 1 : b])
        for r, a, b in zip(row, before, after, strict=True)
    ]
    known = [name in entries for name in written]
    return phrase({"its one name": all(known) and len(known) > 100})


@guard("masked tokens")
def scored_against(system: System):
    objective, _ = objective_of(system)
    return phrase(
        {
            "scored against sampled tokens": objective.negatives > 0,
            "scored against the whole vocabulary": objective.negatives == 0,
        }
    )


@guard("passes")
def passes(system: System):
    """Whether the input of the n-gram's loss also has masks of single tokens."""
    batch, _, _ = batch_of(system)
    masks = (batch["token"] == VOCAB.mask_id).sum(axis=1)
    most_of_ngram = batch["ngram_token"].shape[1] - 2
    return phrase(
        {
            "one for the n-gram, one for masked tokens": masks.max() <= most_of_ngram,
            "one for both": masks.min() > most_of_ngram,
        }
    )


@guard("negatives of an n-gram")
def negatives(system: System):
    """Whether a row of the same document changes the loss of another row."""
    state = jnp.eye(3)[:, :3]
    other, weight = jnp.array([0, 1, 2]), jnp.ones(3)
    term = [
        float(info_nce(state, state, jnp.array(d), weight)[0].total)
        for d in ([0, 1, 2], [0, 0, 2])
    ]
    assert other.shape == weight.shape
    return phrase(
        {
            "the others of the batch": np.isclose(*term),
            "those of other documents": term[1] < term[0],
        }
    )


@guard("targets of the two halves of a row of 512")
def halves(system: System):
    batch, _, length = batch_of(system)
    at, used = batch["scored"], batch["weight"] > 0
    position = np.take_along_axis(batch["position"], at, axis=1)
    first = (used & (position < length // 2)).sum(axis=1)
    second = (used & (position >= length // 2)).sum(axis=1)
    forward = np.isin(first, (43,)) & np.isin(second, (42,))
    backward = np.isin(second, (43,)) & np.isin(first, (42,))
    return [43, 42] if (forward | backward).all() else [first.tolist(), second.tolist()]


@guard("order of the two halves")
def order_of_halves(system: System):
    """No token of the first half reaches one of the second, all of the second reach
    the first; and the orders within the halves are not correlated.
    """
    batch, _, length = batch_of(system)
    rank = batch["rank"][:, :length]
    half = length // 2
    apart = rank[:, :half].max(axis=1) < rank[:, half:].min(axis=1)
    drawn = rank[:, 1:half] % (length + 1), rank[:, half + 1 :] % (length + 1)
    same = np.mean(
        [np.corrcoef(a, b[: len(a)])[0, 1] for a, b in zip(*drawn, strict=True)]
    )
    own = apart.all() and abs(same) < 0.05
    return phrase({"each half is permuted by itself": own})


@guard("end of a document")
def document_ends(system: System):
    """Whether the token between two documents may be a target."""
    objective, length = objective_of(system)
    text = full_rows(objective, length)
    token = text.token.copy()
    token[:, 20::40] = VOCAB.eos_id
    batch = objective.corrupt(
        text._replace(token=token), keys(len(token)), VOCAB, length
    )
    used = batch["weight"] > 0
    is_target = (batch["target"][used] == VOCAB.eos_id).any()
    return phrase(
        {
            "a token of its own, ordinary for the order and a possible target": (
                is_target
            ),
            "the separator": not is_target
            and (batch["token"] == VOCAB.eos_id).sum() > 3 * len(token),
        }
    )


@guard("row")
def row_layout(system: System):
    """Of forward rows: where separators, types and the class token are."""
    batch, _, length = batch_of(system)
    token, kind = batch["token"][:, :length], batch["token_type"][:, :length]
    forward = batch["position"][:, 0] == 0
    token, kind = token[forward], kind[forward]
    last = (token[:, -1] == VOCAB.bos_id) & (kind[:, -1] == 2)
    two = (token == VOCAB.eos_id).sum(axis=1) == 2
    ends = [
        [
            k[t == VOCAB.eos_id].tolist() == [0, 1]
            for t, k in zip(token, kind, strict=True)
        ]
    ]
    reused = (kind[:, : length // 2] == 0).all()
    whole = last.all() and two.all() and np.all(ends) and reused
    return phrase({"reused half, A, separator, B, separator, class token": whole})


@guard("tokens that become mems")
def new_mems(system: System):
    return objective_of(system)[0].text_spec(512).stride


@guard("second segment of a nonadjacent pair")
def nonadjacent_segments(system: System):
    """Where second segments begin, which do not follow the first ones."""
    starts = np.arange(8192) % 60 == 0
    length, first, second = _segments(system, np.where(starts, WORD | SENTENCE, WORD))
    gap = np.array([b[0] - a[-1] for a, b in zip(first, second, strict=True)])
    far = gap > length // 2
    return phrase(
        {
            "from the text ahead": far.mean() > 0.2 and (gap > 0).all(),
            "from anywhere in the row's stream": (gap < 0).any(),
        }
    )


def _segments(system: System, flags: np.ndarray, *, forward: bool = True):
    """Length; the raw positions of both segments of rows that are read one way."""
    objective, length = objective_of(system)
    text = full_rows(objective, length)
    raw = text.token.shape[1]
    first_id = int(VOCAB.ordinary_ids[0])
    size = first_id + raw
    vocab = VOCAB._replace(size=size, is_special=np.arange(size) < first_id)
    position = np.tile(np.arange(raw), (len(text.token), 1))
    batch = objective.corrupt(
        text._replace(
            token=(first_id + position).astype(np.int32),
            flags=np.tile(flags[:raw], (len(position), 1)).astype(np.uint8),
            label=np.full(len(position), BACKWARD * (not forward), np.int32),
        ),
        keys(len(position)),
        vocab,
        length,
    )
    rows = (batch["position"][:, 0] == 0) == forward
    token, kind = (batch[n][rows, :length] for n in ("token", "token_type"))
    at = [
        [
            t[(k == n) & (t >= first_id)] - first_id
            for t, k in zip(token, kind, strict=True)
        ]
        for n in (0, 1)
    ]
    return length, *at


@guard("trim of a pair")
def trim(system: System):
    """Of forward rows whose sentences have 60 tokens: whether second segments begin
    with a sentence (but for those in the one that the row's end cuts), are unbroken,
    and end within one.
    """
    starts = np.arange(8192) % 60 == 0
    _, _, second = _segments(system, np.where(starts, WORD | SENTENCE, WORD))
    begins = np.mean([each[0] % 60 == 0 for each in second]) > 0.95
    unbroken = all((np.diff(each) == 1).all() for each in second)
    cut = any(each[-1] % 60 != 59 for each in second)
    at_end = begins and unbroken and cut
    return phrase({"the end of the longer segment, until both fit": at_end})


@guard("trigrams of a sentence")
def trigrams(system: System):
    """Of rows that are one sentence."""
    objective, length = objective_of(system)
    flags = np.zeros((300, objective.text_spec(length).width), np.uint8)
    flags[:, 0] = WORD | SENTENCE
    _, batch = rows_of(objective, length, flags=flags)
    first = objective.num_masked(length)
    count = batch["weight"][:, first:-1].sum(axis=1) / 3
    return phrase({"several": count.min() > 1, "one": count.max() == 1})


@guard("gradient that epsilon is compared with")
def scale_of_the_loss(system: System):
    """Whether the loss of masked tokens is their mean."""
    from tests.fidelity.guards.networks import small

    own = small(system.name)
    terms, _ = own.run(lambda net: own.objective.loss(net, own.batch, None))
    term, used = terms["mlm"], own.batch["weight"].sum()
    return phrase({"of the mean over masked tokens": bool(term.weight == used)})


@guard("sentence that fills a backward row")
def backward_sentences(system: System):
    """Of backward rows whose sentences have 60 tokens: whether the last segment ever
    begins within a sentence, in the order of the text.
    """
    starts = np.arange(8192) % 60 == 0
    flags = np.where(starts, WORD | SENTENCE, WORD)
    _, first, second = _segments(system, flags, forward=False)
    adjacent = [(a, b) for a, b in zip(first, second, strict=True) if a[-1] == b[0] + 1]
    # Read backward, the second segment's last token is the first of the row's text.
    ends_with_row = all(b[-1] == 0 for _, b in adjacent)
    return phrase({"ends with the row": ends_with_row and len(adjacent) > 20})


@guard("masks of a row whose mentions are a third of it")
def masks_beside_mentions(system: System):
    """The mean number of masked tokens, where hardly any mention is replaced."""
    objective, length = objective_with(system, replace_rate=1e-9), length_of(system)
    text = full_rows(objective, length)
    raw, third = text.token.shape[1], text.token.shape[1] // 3
    entity = int(VOCAB.lexicon.token[0, 0])
    outside = np.setdiff1d(VOCAB.ordinary_ids, VOCAB.lexicon.token[:, :1])
    plain = outside[text.token % len(outside)]
    token = np.where(np.arange(raw) < third, entity, plain).astype(np.int32)
    _, batch = rows_of(
        objective, length, token=token, flags=np.full_like(text.flags, WORD)
    )
    masked = batch["weight"].sum(axis=1).mean()
    outside_alone = np.ceil(0.05 * raw) * (1 - third / raw)
    return phrase(
        {
            "5 % of all tokens, rounded up, but for those in mentions": (
                abs(masked - outside_alone) < 0.5
            ),
            "5 % of all tokens": masked == round(0.05 * length),
        }
    )


@guard("pieces without mentions")
def pieces_without_mentions(system: System):
    objective, length = objective_of(system)
    outside = np.setdiff1d(VOCAB.ordinary_ids, VOCAB.lexicon.token[:, :1])
    text = full_rows(objective, length)
    token = outside[text.token % len(outside)].astype(np.int32)
    _, batch = rows_of(objective, length, token=token)
    assert not batch["mention_weight"].any()
    scored = batch["weight"].any()
    return phrase({"read, but not scored": not scored, "read, and scored": scored})


@guard("padding among random tokens")
def padding_among_random_tokens(system: System):
    """Of parts whose chosen tokens are all random."""
    own = system.config(system.sizes[0]).objective.to_dict()
    parts = own["parts"].values()
    found = set()
    for part in parts:
        fields = {k: v for k, v in part.items() if k != "mixing_rate"}
        fields |= {"mask_fraction": 0.0, "random_fraction": 1.0}
        objective = objectives.make_objective(own["base_objective"], **fields)
        _, batch = rows_of(objective, length_of(system))
        used = batch["weight"] > 0
        here = np.take_along_axis(batch["token"], batch["scored"], axis=1)[used]
        found |= {*np.unique(here).tolist()}
    assert len(found) > VOCAB.size / 2
    return phrase({"as likely as any entry": VOCAB.pad_id in found})


@guard("where a row's chosen tokens lie")
def chosen_tokens(system: System):
    """Whether the last tenth of full rows has a tenth of them, or none."""
    _, batch = rows_of(objective_with(system), 128)
    late = (batch["scored"][batch["weight"] > 0] >= 0.9 * 128).mean()
    return phrase({"anywhere": 0.05 < late < 0.15, "not at the end": late == 0})


@guard("words hidden from a query")
def hidden_from_a_query(system: System):
    """Whether queries of a row may differ in what they see, and words may be cut."""
    objective = objective_with(system)
    text, batch = rows_of(objective, 64, 100)
    seen = {n: batch[f"seen_{n}"] for n in ("rank", "reach", "low", "low2", "reach2")}
    mask = rank_mask(seen, seen)[:, 1:-1, 1:-1]
    differs = (mask[:, 0] != mask[:, 1]).any(axis=1).mean() > 0.9
    same_word = (text.flags[:, 1:62] & WORD) == 0
    cut = (mask[:, 0, :-1] != mask[:, 0, 1:])[:, : same_word.shape[1]]
    cuts_words = (cut & same_word).any()
    return phrase({"tokens, other ones from each": differs and cuts_words})
