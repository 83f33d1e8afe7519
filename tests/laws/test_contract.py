"""The contract of every objective's batches; objectives are found by their folder."""

import dataclasses

import numpy as np
import pytest

from research import objectives
from research.contract.batch import (
    ANSWER_END,
    ANSWER_START,
    attention_mask,
    input_names,
)
from research.data import counter_rng
from research.data.read.formats.captioned import IMAGE
from research.predictions import prediction_kind
from tests.testing.example_batches import keys, vocabulary
from tests.testing.objective_cases import (
    CASES,
    VOCAB,
    all_cases,
    input_groups,
    input_prefixes,
    make_batch,
    make_objective,
    vocab_of,
    weight_names,
)

lengths = pytest.mark.parametrize("length", [12, 37, 128])


@all_cases
@lengths
def test_arrays_are_as_in_batch_spec(name, fields, length):
    objective = make_objective(name, fields)
    _, batch = make_batch(objective, length)
    specs = objective.batch_spec(length)
    assert batch.keys() == specs.keys(), "corrupt and batch_spec name other arrays"
    for array, (shape, dtype) in specs.items():
        assert batch[array].shape == (8, *shape), f"{array} has another shape"
        assert batch[array].dtype == dtype, f"{array} has another type"


@all_cases
@lengths
def test_a_row_is_a_function_of_its_text_and_key(name, fields, length):
    objective = make_objective(name, fields)
    example, whole = make_batch(objective, length)
    before, vocab = [array.copy() for array in example], vocab_of(objective)
    for part in (slice(0, 1), slice(3, 8), slice(None, None, -1)):
        found = objective.corrupt(example.rows(part), keys(8)[part], vocab, length)
        for array, expected in whole.items():
            np.testing.assert_array_equal(
                found[array],
                expected[part],
                f"{array} of a row depends on the other rows of the batch, or on noise "
                "that is not drawn from the row's key by counter_rng",
            )
    for array, copy in zip(example, before, strict=True):
        np.testing.assert_array_equal(array, copy, "corrupt changes the example")


@all_cases
def test_a_row_depends_on_the_step_only_where_the_objective_reads_it(name, fields):
    """The number of the step itself may be there, for schedules that do not vary."""
    objective = make_objective(name, fields)
    example, batch = make_batch(objective, 37)
    example = example._replace(step=example.step + 1000)
    found = objective.corrupt(example, keys(8), vocab_of(objective), 37)
    differ = [
        array
        for array in batch.keys() - {"step"}
        if not np.array_equal(batch[array], found[array])
    ]
    assert objective.reads_step or not differ


@all_cases
def test_a_row_depends_on_its_corpus_only_where_the_objective_reads_it(name, fields):
    objective = make_objective(name, fields)
    example, _ = make_batch(objective, 37)
    one, two = (
        objective.corrupt(
            example._replace(corpus=np.full_like(example.corpus, number)),
            keys(8),
            vocab_of(objective),
            37,
        )
        for number in (0, 1)
    )
    differ = [array for array in one if not np.array_equal(one[array], two[array])]
    assert objective.reads_corpus or not differ


@all_cases
def test_noise_depends_on_the_key(name, fields, monkeypatch):
    objective, drawn = make_objective(name, fields | {"packed": False}), []
    random_bits = counter_rng.random_bits

    def draw(key, role, n):
        drawn.append(role)
        return random_bits(key, role, n)

    monkeypatch.setattr(counter_rng, "random_bits", draw)
    example, batch = make_batch(objective, 128)
    other = objective.corrupt(example, keys(8, seed=1), vocab_of(objective), 128)
    same = all(np.array_equal(batch[array], other[array]) for array in batch)
    assert same == (not drawn), (
        f"noise is drawn ({', '.join({*drawn})}), but is the same for other keys"
        if drawn
        else "noise is drawn from the key, but not by counter_rng"
    )


@all_cases
@lengths
def test_padding_has_no_attention_and_no_weight(name, fields, length):
    objective = make_objective(name, fields)
    example, batch = make_batch(objective, length)
    empty = example.length == 0
    for prefix, (group, _) in input_groups(objective, batch).items():
        here = group["segment"] > 0
        assert not here[empty].any(), f"{prefix}segment is above 0 in rows without text"
        assert here.any(), f"{prefix}segment is 0 in all rows"
        padding = group["token"][~here]
        assert (padding == VOCAB.pad_id).all(), (
            f"{prefix}token of padding is another id"
        )
        mask = attention_mask(group)
        assert not mask[~here].any(), f"padding of {prefix}token attends"
        assert not mask.swapaxes(1, 2)[~here].any(), f"padding of {prefix}token is seen"
        limits = {"token": VOCAB.size, "token_type": 8}
        for array, limit in limits.items():
            inside = (group[array] >= 0) & (group[array] < limit)
            assert inside.all(), f"{prefix}{array} is not in 0..{limit - 1}"
        assert (np.abs(group["position"]) < 2 * length).all(), (
            f"{prefix}position is far"
        )
    weights = {weight: batch[weight] for weight in weight_names(batch)}
    for weight, values in weights.items():
        assert (values >= 0).all(), f"{weight} is below 0"
        assert not values[empty].any(), f"{weight} is above 0 in rows without text"
    assert any(values.any() for values in weights.values()), "all weights are 0"


@all_cases
@lengths
def test_scored_positions_are_in_the_text(name, fields, length):
    objective = make_objective(name, fields)
    _, batch = make_batch(objective, length)
    groups = input_groups(objective, batch)
    for weight in weight_names(batch):
        prefix = weight.removesuffix("weight")
        group = groups.get(f"{prefix}decoder_") or groups.get(prefix)
        if group is None or batch[weight].ndim < 2:
            continue  # not positions of a text
        target, used = batch[prefix + "target"], batch[weight] > 0
        known = (target >= 0) & (target < VOCAB.size)
        assert known.all(), f"{prefix}target is not in 0..{VOCAB.size - 1}"
        position = np.arange(used.shape[1])[None].repeat(len(used), axis=0)
        if prefix + "scored" in batch:
            position = batch[prefix + "scored"]
            assert not position[~used].any(), f"{prefix}scored is not 0 in unused slots"
        segment = np.take_along_axis(group[0]["segment"], position, axis=1)
        row, slot = np.nonzero(used & (segment == 0))
        assert not len(row), (
            f"{weight} on padding: row {row[0]}, position {position[row[0], slot[0]]}"
        )


@all_cases
@lengths
def test_the_attention_mask_matches_the_pattern(name, fields, length):
    objective = make_objective(name, fields)
    _, batch = make_batch(objective, length)
    for prefix, (group, pattern) in input_groups(objective, batch).items():
        assert ("low2" in group) <= ("reach2" in group), f"{prefix}low2 needs reach2"
        segment, mask = group["segment"], attention_mask(group)
        same = (segment[:, :, None] == segment[:, None]) & (segment[:, None] > 0)
        position = np.arange(segment.shape[1])
        if pattern == "causal":
            same &= position[:, None] >= position
        if pattern == "self":
            same &= position[:, None] == position
        wrong = mask & ~same if pattern == "general" else mask != same
        row, query, key = np.argwhere(wrong)[0] if wrong.any() else (0, 0, 0)
        assert not wrong.any(), (
            f"{prefix}rank and {prefix}reach are not those of pattern {pattern}: row "
            f"{row}, whether position {query} attends to {key}"
        )


LABELLED = [
    case
    for case in CASES
    if make_objective(*case.values).text_spec(24).label not in ("", "text")
]


@pytest.mark.parametrize(("name", "fields"), LABELLED)
@lengths
def test_the_input_is_the_same_whatever_the_labels_of_a_text(name, fields, length):
    objective = make_objective(name, fields)
    text, batch = make_batch(objective, length)
    ends = np.where(text.flags & ANSWER_START > 0, ANSWER_END, 0).astype(np.uint8)
    other = text._replace(
        label=np.where(text.label >= 0, (text.label + 1) % 2, -1).astype(np.int32),
        arrays=dict(text.arrays)
        | {
            array: np.where(value >= 0, (value + 1) % 3, value).astype(value.dtype)
            for array, value in text.arrays.items()
            if array != IMAGE  # of which nothing is a label
        },
        flags=text.flags & ~np.uint8(ANSWER_END) | ends,
    )
    changed = objective.corrupt(other, keys(8), vocab_of(objective), length)
    different = [
        name for name in batch if not np.array_equal(batch[name], changed[name])
    ]
    assert different, "no array of the batch has the labels"
    inputs = {p + n for p in input_prefixes(batch) for n in input_names(batch, p)}
    fixed = inputs | {*weight_names(batch), "scored", "pooled"}
    shown = [name for name in different if name in fixed]
    assert not shown, f"{', '.join(shown)} changes with the labels, and so shows them"


@all_cases
def test_min_length_is_the_least_that_scores(name, fields):
    objective = make_objective(name, fields)
    least = objective.min_length
    assert scores_text(objective, least), (
        f"min_length is {least}, but no text is scored at that length"
    )
    if (name, "mem_len" in fields) != ("lm", True):  # its carry compares two positions
        assert not scores_text(objective, least - 1), (
            f"min_length is {least}, but texts are scored at length {least - 1}"
        )


def scores_text(objective, length: int) -> bool:
    """Whether all arrays of weights of full rows have one above 0."""
    try:
        spec = objective.text_spec(length)
        spans = 2 if spec.pair_labels else 1
        if spec.length < spans:
            return False
        _, batch = make_batch(objective, length, [spec.length] * 64)
    except (IndexError, ValueError):  # such a length is refused before these
        return False
    return all(batch[weight].any() for weight in weight_names(batch))


@all_cases
def test_fields_are_plain_values(name, fields):
    objective = make_objective(name, fields | {"packed": False})
    assert dataclasses.is_dataclass(objective) and hash(objective) is not None
    for field in dataclasses.fields(objective):
        assert isinstance(field.default, str | int | float | tuple)
        assert field.name not in {*dir(objectives.Objective), "pattern"}


@all_cases
def test_what_an_objective_can_do_is_declared_and_defined(name, fields):
    objective = make_objective(name, fields)
    for method in objective.score_methods:
        part, _ = objective.scored_part(method)
        assert type(part).score_rows is not objectives.Objective.score_rows
    for part in objective.writers.values():
        assert part.prompt is not None
    if objective.predicts and not prediction_kind(objective.predicts).is_written:
        defined = type(objective).predictions
        assert defined is not objectives.Objective.predictions


@all_cases
def test_notes_are_lines_of_their_row(name, fields):
    """Of every row, an empty one too, where the objective defines them; positions in
    another order are those of the row."""
    objective = make_objective(name, fields)
    _, batch = make_batch(objective, 37)
    for number in range(8):
        row = {array: values[number].copy() for array, values in batch.items()}
        found = objective.notes(row, vocabulary(VOCAB))
        if "notes" in vars(type(objective)):
            assert found.lines, "notes of a row have no title"
        for title, lines in found.lines.items():
            assert lines, f"notes have no line of {title}"
            assert all(line.isprintable() for line in [title, *lines])
        if found.order is not None:
            assert sorted(found.order) == np.flatnonzero(row["segment"] > 0).tolist()
        for array, values in batch.items():
            np.testing.assert_array_equal(row[array], values[number])
