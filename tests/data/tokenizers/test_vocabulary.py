"""A vocabulary rebuilds text, never makes a special id of it, and knows its words."""

import unicodedata
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from research.data.corpora.files import join
from research.data.tokenizers import tokenizer_sample, train_tokenizer, vocabulary
from research.errors import UserError
from tests.testing.fake_corpus import SENTINELS, SIZE, corpus_of, make_lines

LOSSLESS = ("unigram", "bpe", "bytebpe")
SCRIPTS = "abz XYZ019 éß .,;!?'\"()[]_-$^ “”—…、。！？ 中文龘𠀀 かな 한 🎈☃ \n\t\u00a0"
TEXTS = st.text(st.sampled_from(SCRIPTS)) | st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="▁")
)


@pytest.mark.parametrize("kind", train_tokenizer.KINDS)
def test_trained_ids_are_laid_out_alike(vocabularies, kind):
    vocabulary = vocabularies[kind]
    vocab = vocabulary.vocab
    assert vocabulary.kind == kind
    assert vocab.size == SIZE
    ids = (vocab.pad_id, vocab.bos_id, vocab.eos_id, vocab.mask_id, vocab.unk_id)
    assert ids == (0, 1, 2, 3, 4)
    assert vocab.sentinel_ids == tuple(range(5, 5 + SENTINELS))
    assert np.flatnonzero(vocab.is_special).tolist() == [
        0,
        1,
        2,
        3,
        *vocab.sentinel_ids,
    ]
    assert vocab.ordinary_ids.tolist() == list(range(5 + SENTINELS, SIZE))


@pytest.mark.parametrize("kind", LOSSLESS)
def test_decode_rebuilds_any_text_up_to_white_space(vocabularies, kind):
    @settings(max_examples=200, deadline=None)
    @given(TEXTS)
    def check(text):
        token, starts = vocabularies[kind].encode(text)
        assert vocabularies[kind].decode(token) == " ".join(text.split())
        assert vocabularies[kind].vocab.unk_id not in token
        assert len(starts) == len(token)

    check()


def test_wordpiece_rebuilds_what_it_knows_up_to_white_space(vocabularies):
    wordpiece = vocabularies["wordpiece"]
    for text in make_lines(1, lines=50):
        token, _ = wordpiece.encode(text)
        assert wordpiece.vocab.unk_id not in token
        assert wordpiece.decode(token).replace(" ", "") == text.replace(" ", "")
    assert wordpiece.vocab.unk_id in wordpiece.encode("☃")[0]


@pytest.mark.parametrize("kind", train_tokenizer.KINDS)
def test_no_text_becomes_a_special_id(vocabularies, kind):
    names = vocabularies[kind].model.names[: 5 + SENTINELS]
    for text in (" ".join(names), "".join(names), "a<mask>b</s>", "[MASK] [CLS]"):
        token, _ = vocabularies[kind].encode(text)
        assert not vocabularies[kind].vocab.is_special[token].any()


@pytest.mark.parametrize("kind", LOSSLESS)
def test_words_start_where_the_characters_say(vocabularies, kind):
    """Against a rule written character by character, whatever the pieces split."""
    surface = vocabularies[kind].model.surface

    @settings(max_examples=200, deadline=None)
    @given(TEXTS)
    def check(text):
        token, starts = vocabularies[kind].encode(text)
        expected = _word_bytes(" " + " ".join(text.split()))
        place = np.cumsum([0, *(len(surface[i]) for i in token)])[:-1]
        assert starts.tolist() == [int(at) in expected for at in place]

    check()


def test_wordpiece_starts_words_where_no_piece_continues(vocabularies):
    wordpiece = vocabularies["wordpiece"]
    token, starts = wordpiece.encode("bada, don't 中文pa!")
    names = [wordpiece.model.names[i] for i in token]
    assert starts.tolist() == [not name.startswith("##") for name in names]
    assert len(names) > sum(starts) > 8


@pytest.mark.parametrize("kind", train_tokenizer.KINDS)
def test_training_is_deterministic_and_blind_to_the_order_of_lines(vocabularies, kind):
    lines = make_lines(0)
    model = train_tokenizer.train(corpus_of(lines[::-1]), kind, SIZE, SENTINELS)
    assert model.data == vocabularies[kind].model.data


@pytest.mark.parametrize("kind", train_tokenizer.KINDS)
def test_a_saved_vocabulary_is_the_same(vocabularies, kind, tmp_path):
    path = vocabularies[kind].save(tmp_path)
    for source in (path, tmp_path):
        loaded = vocabulary.load(source, SENTINELS)
        assert loaded.sha256 == vocabularies[kind].sha256
        assert str(loaded.vocab) == str(vocabularies[kind].vocab)


def test_missing_symbols_follow_the_end_as_t5_adds_them(vocabularies, tmp_path):
    path = vocabularies["unigram"].save(tmp_path)
    vocab = vocabulary.load(path, SENTINELS + 3).vocab
    added = vocab.sentinel_ids[SENTINELS:]
    assert added == (SIZE + 2, SIZE + 1, SIZE)
    assert vocab.size == SIZE + 3 == len(vocab.is_special)
    assert vocab.is_special[list(added)].all()
    assert vocab.ordinary_ids.max() < SIZE


def test_a_vocab_txt_brings_its_own_symbols(tmp_path):
    names = ["[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "##b", "!"]
    (tmp_path / "vocab.txt").write_text("\n".join(names) + "\n")
    loaded = vocabulary.load(tmp_path / "vocab.txt", 2)
    vocab = loaded.vocab
    ids = (vocab.pad_id, vocab.unk_id, vocab.bos_id, vocab.eos_id, vocab.mask_id)
    assert ids == (0, 2, 3, 4, 5)
    assert vocab.sentinel_ids == (10, 9)
    assert vocab.ordinary_ids.tolist() == [6, 7, 8]
    token, starts = loaded.encode("AB! c")
    assert token.tolist() == [6, 7, 8, 2]  # no capitals among its pieces: lowercased
    assert starts.tolist() == [True, False, True, True]


@pytest.mark.parametrize(
    ("name", "data", "says"),
    [
        ("absent.model", None, "no such file"),
        ("unigrams", None, "unigram, bpe, wordpiece, bytebpe"),
        ("noise.model", b"\x00\x01 noise", "not a vocabulary file"),
        ("tokenizer.json", b"{}", "not a vocabulary file"),
        ("vocab.txt", b"a\nb\n", "[UNK]"),
    ],
)
def test_a_file_that_is_no_vocabulary_is_one_line(tmp_path, name, data, says):
    if data is not None:
        (tmp_path / name).write_bytes(data)
    with pytest.raises(UserError) as error:
        vocabulary.load(tmp_path / name if "." in name else name, 5)
    assert "data.vocabulary" in str(error.value)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("kind", train_tokenizer.KINDS)
@pytest.mark.parametrize("size", [200, 50_000])
def test_a_size_that_does_not_fit_names_the_key(tmp_path, kind, size):
    config = SimpleNamespace(
        vocabulary=kind, vocabulary_size=size, sentinels=SENTINELS, alpha=0.0
    )
    with pytest.raises(UserError, match="vocabulary_size") as error:
        vocabulary.load_or_train(config, corpus_of(make_lines(0, 50)), tmp_path)
    assert "\n" not in str(error.value)


def test_the_sample_keeps_the_smallest_hashes(monkeypatch, capsys):
    lines = make_lines(2, 300)
    whole = tokenizer_sample.sample(corpus_of(lines))
    assert sorted(whole) == sorted(lines)
    monkeypatch.setattr(tokenizer_sample, "SAMPLE", 5_000)
    some = tokenizer_sample.sample(corpus_of(lines))
    size = sum(len(line.encode()) for line in some)
    assert 5_000 <= size < 5_000 + max(len(line.encode()) for line in lines)
    assert whole[: len(some)] == some[: len(some)] or set(some) < set(whole)
    assert tokenizer_sample.sample(corpus_of(lines[::-1])) == some
    capsys.readouterr()
    monkeypatch.setattr(tokenizer_sample, "LONGEST", 60)
    short = tokenizer_sample.sample(corpus_of(lines))
    assert all(len(line.encode()) <= 60 for line in short)
    assert "longer than 60 bytes" in capsys.readouterr().err


def test_an_alpha_shares_out_the_lines(monkeypatch):
    texts = [make_lines(seed, 40 * seed) for seed in (1, 4)]
    corpora = [corpus_of(lines, str(len(lines))) for lines in texts]
    both = join(corpora)
    sizes = [sum(len(line.encode()) for line in lines) for lines in texts]
    assert sorted(tokenizer_sample.sample(both)) == sorted(texts[0] + texts[1])
    for alpha, most in ((0.5, 2**23), (0.3, 2**23), (0.5, 3000)):
        monkeypatch.setattr(tokenizer_sample, "SAMPLE", most)
        lines = tokenizer_sample.sample(both, alpha)
        own = [[line for line in lines if line in set(text)] for text in texts]
        assert own[0] + own[1] == lines
        total = min(most, sum(sizes))
        for drawn, size in zip(own, sizes, strict=True):
            share = size**alpha / sum(s**alpha for s in sizes)
            given = sum(len(line.encode()) for line in drawn)
            assert (
                share * total - 1 <= given <= share * total + tokenizer_sample.LONGEST
            )
        if most > sum(
            sizes
        ):  # all lines of the small one, some twice, not of the other
            assert set(own[0]) == set(texts[0]) and len(own[0]) > len(texts[0])
            assert len(own[1]) == len(set(own[1])) < len(texts[1])
    assert tokenizer_sample.sample(corpora[0], 0.5) == tokenizer_sample.sample(
        corpora[0]
    )


def test_a_vocabulary_knows_its_alpha_where_there_are_parts():
    both = join([corpus_of(make_lines(n, 30), str(n)) for n in (1, 2)])
    made = [
        train_tokenizer.made_of(both, "bpe", 400, 5, alpha) for alpha in (0.0, 0.3, 0.5)
    ]
    assert made[0] != made[1] != made[2] != made[0]
    (one, *_) = both.parts
    assert train_tokenizer.made_of(one, "bpe", 400, 5, 0.3) == train_tokenizer.made_of(
        one, "bpe", 400, 5
    )


def _word_bytes(text: str) -> set[int]:
    """The places in UTF-8 at which a word starts."""
    found, place, before = set(), 0, ""
    for character in text:
        alone = _alone(character)
        if character == " " or (before != " " and (alone or _alone(before))):
            found.add(place)
        place += len(character.encode())
        before = character
    return found


def _alone(character: str) -> bool:
    """Punctuation or a CJK ideograph, as BERT's tokenizer has it."""
    point = ord(character)
    if any(first <= point <= last for first, last in ((33, 47), (58, 64), (91, 96))):
        return True
    ideographs = ((0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF))
    ideographs += ((0x20000, 0x2FA1F),)
    return (
        123 <= point <= 126
        or unicodedata.category(character).startswith("P")
        or any(first <= point <= last for first, last in ideographs)
    )
