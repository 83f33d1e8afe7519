"""fim: prefix, suffix and middle can be put together again, and a document ends."""

import itertools

import numpy as np
import pytest

from research import objectives
from research.contract.batch import WORD
from research.contract.errors import UserError
from research.data.options import DataOptions
from research.data.tokenize.train_tokenizer import TOKENIZER_TYPES
from research.data.tokenize.vocabulary import load_or_train
from research.objectives.combined.packed_rows import PackedRows
from tests.testing.example_batches import keys, texts, vocab
from tests.testing.fake_corpus import SENTINELS, SIZE, corpus_of, make_lines
from tests.testing.objective_cases import VOCAB, make_batch

FIRST, SECOND, THIRD = VOCAB.sentinel_ids[:3]
LENGTH, ROWS = 24, 64


def corrupt(example, rate, vocab=VOCAB, length=LENGTH, key=None, **fields):
    objective = objectives.make_objective("fim", rate=rate, **fields)
    key = keys(len(example.length)) if key is None else key
    return objective.corrupt(example, key, vocab, length)


def parts_of(target):
    """Prefix, middle, suffix of a rearranged text, whichever order it has."""
    second, third = target.index(SECOND), target.index(THIRD)
    one, two, three = target[:second], target[second + 1 : third], target[third + 1 :]
    return (one, three, two) if second else (three, [], two)


@pytest.mark.parametrize("ends", [False, True])
@pytest.mark.parametrize("cut", ["token", "character"])
@pytest.mark.parametrize("spm_rate", [0.0, 1.0])
def test_a_text_is_its_prefix_middle_and_suffix(ends, cut, spm_rate):
    """A separator after it stays last, and is scored; tokens are characters here."""
    num_raw = np.arange(ROWS) % (LENGTH - 1)
    example = texts(LENGTH - 2, num_raw, VOCAB)
    if ends:
        row = np.flatnonzero(num_raw)
        example.token[row, num_raw[row] - 1] = VOCAB.eos_id
    batch = corrupt(example, 1.0, cut=cut, spm_rate=spm_rate)
    for row, size in enumerate(num_raw):
        text = example.token[row, :size].tolist()
        here = batch["segment"][row] > 0
        target = batch["target"][row, here].tolist()
        if size == 0 or text == [VOCAB.eos_id]:
            assert target == text
            continue
        read = batch["token"][row, here].tolist()
        assert read == [FIRST, *target[:-1]]
        end = [target.pop()] if ends else []
        second, third = target.index(SECOND), target.index(THIRD)
        assert spm_rate < 1 or second == 0
        assert [*itertools.chain(*parts_of(target), end)] == text
        weight = batch["weight"][row, here].astype(bool)
        assert np.flatnonzero(~weight).tolist() == [second, third]
        assert not batch["weight"][row, ~here].any()


def test_half_of_the_texts_stay_as_they_are():
    example = texts(LENGTH, [LENGTH - 2] * 400, VOCAB)
    batch, plain = (corrupt(example, rate) for rate in (0.5, 0.0))
    stays = batch["token"][:, 0] == VOCAB.bos_id
    assert 0.4 < stays.mean() < 0.6
    for name, array in plain.items():
        np.testing.assert_array_equal(batch[name][stays], array[stays])
    lm = objectives.make_objective("lm")
    for name, array in lm.corrupt(example, keys(400), VOCAB, LENGTH).items():
        np.testing.assert_array_equal(plain[name], array)


def test_packed_documents_end():
    """As often as those of `lm`."""
    ended = []
    for name in ("fim", "lm"):
        objective = PackedRows(objectives.make_objective(name))
        _, batch = make_batch(objective, 64, [40] * 50)
        ended.append(batch["weight"][batch["target"] == VOCAB.eos_id].sum())
    assert ended[0] == ended[1] > 0


def test_what_a_vocabulary_cannot_say_is_refused():
    with pytest.raises(UserError, match=r"needs data\.sentinels of at least 3, not 2"):
        objectives.make_objective("fim").needs(vocab(sentinels=2))
    example, without = texts(20, [20], VOCAB), VOCAB._replace(pieces=None)
    with pytest.raises(UserError, match=r"cut=character needs a vocabulary of pieces"):
        corrupt(example, 1.0, without, cut="character")


def test_a_prompt_is_that_of_lm():
    ours, theirs = (
        objectives.make_objective(name).prompt([[7, 8, 9]], VOCAB)
        for name in ("fim", "lm")
    )
    np.testing.assert_array_equal(ours.group["token"], theirs.group["token"])


@pytest.mark.parametrize("spm_rate", [0.0, 1.0])
def test_a_prompt_with_a_mask_is_a_row_without_its_middle(spm_rate):
    example = texts(LENGTH, [LENGTH - 2] * ROWS, VOCAB)
    batch = corrupt(example, 1.0, spm_rate=spm_rate)
    fim = objectives.make_objective("fim", spm_rate=spm_rate)
    suffix_first = batch["target"][:, 0] == SECOND  # or the prefix is empty
    for row in np.flatnonzero(suffix_first == (spm_rate == 1)):
        prefix, middle, suffix = parts_of(batch["target"][row].tolist())
        prompt = fim.prompt([[*prefix, VOCAB.mask_id, *suffix]], VOCAB)
        size = min(LENGTH, LENGTH + 1 - len(middle))
        for name, array in prompt.group.items():
            np.testing.assert_array_equal(array[0, :size], batch[name][row, :size])
    with pytest.raises(UserError, match="fills one mask of a prompt, not 2"):
        fim.prompt([[VOCAB.mask_id] * 2], VOCAB)


def test_suffixes_come_first_at_their_rate_and_documents_are_cut_alone():
    """Two documents a row: each begins with the first sentinel, the first as bos."""
    example = texts(LENGTH, [LENGTH - 2] * 400, VOCAB)
    example.token[:, 9] = VOCAB.eos_id
    batch = corrupt(example, 0.5, text_unit="document", spm_rate=0.5, length=LENGTH + 2)
    moved, first = [], []
    for row in range(400):
        read = batch["token"][row].tolist()
        end = read.index(VOCAB.eos_id)
        for document in (read[:end], read[end + 1 :]):
            moved.append(document[0] == FIRST)
            if moved[-1]:
                first.append(document[1] == SECOND)
    assert 0.4 < np.mean(moved) < 0.6
    # Of PSM a prefix is empty in some tenth of the documents.
    assert 0.5 < np.mean(first) < 0.72


@pytest.mark.parametrize("vocabulary", TOKENIZER_TYPES)
def test_words_are_cut_between_characters_and_tokenized_anew(vocabulary, tmp_path):
    """The three parts have the text, and about as many cuts in tokens as characters."""
    data = DataOptions(vocabulary=vocabulary, vocabulary_size=SIZE, sentinels=SENTINELS)
    lines = make_lines(0)
    trained = load_or_train(data, corpus_of(lines), tmp_path)
    vocab, spelled = trained.vocab, trained.vocab.pieces.text
    inside = borders = 0
    for line, key in zip(lines, keys(60), strict=False):
        token, starts = trained.encode(line)
        flags = np.where(starts, WORD, 0).astype(np.uint8)
        example = texts(len(token), [len(token)], vocab)
        example = example._replace(token=token[None], flags=flags[None])
        batch = corrupt(example, 1.0, vocab, 2 * len(token), key[None], cut="character")
        found = batch["target"][0, batch["segment"][0] > 0].tolist()
        if (
            vocab.sentinel_ids[2] not in found
        ):  # the end is left out, with a short middle
            continue
        second, third = map(found.index, vocab.sentinel_ids[1:3])
        parts = found[:second], found[third + 1 :], found[second + 1 : third]
        text = [b"".join(spelled[each] for each in part) for part in parts]
        whole = b"".join(spelled[each] for each in token)
        start = b"".join(text[:2])  # the end may be left out
        if trained.type.marks:  # parts of words begin words
            whole, start = whole.replace(b" ", b""), start.replace(b" ", b"")
        assert whole.startswith(start)
        ends = np.cumsum([len(spelled[each]) for each in token])
        at = {len(text[0]), len(start)}
        inside, borders = inside + len(at - {0, *ends}), borders + len(at)
        if vocabulary == "unigram" and text[0][-1:] not in (b"", b" "):
            assert trained.encode(text[0].decode())[0].tolist() == parts[0]
    assert inside > borders / 5 > 15
