"""Tokenizer files of Hugging Face's layout give the ids of the library `tokenizers`."""

import io
import json

import pytest
import sentencepiece
import tokenizers
from tokenizers import (
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

from research.contract.errors import UserError
from research.data.tokenize import export_tokenizer
from research.data.tokenize.token_offsets import token_offsets
from research.data.tokenize.vocabulary import load_vocabulary
from tests.testing.fake_corpus import make_lines

LINES = [
    *make_lines(1),
    "Le cœur a ses raisons, que la raison ne connaît point.",
    "Die Straßenbahn fährt  um 8.30 Uhr; ¿qué pasó?",
    "彼は言った。学校へ行った！ 终于好了。 그는 학교에 갔다.",
]
SPECIALS = ["<pad>", "</s>", "<unk>", "<s>", "<cls>", "<sep>", "<mask>"]


def unigram(before):
    """XLNet's kind of file: normalised, lower case, a mark before each word."""
    tokenizer = tokenizers.Tokenizer(models.Unigram())
    steps = [normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase()]
    space = normalizers.Replace(tokenizers.Regex(" {2,}"), " ")
    tokenizer.normalizer = normalizers.Sequence(
        [*steps, normalizers.Strip(left=True, right=True), space]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(before)
    tokenizer.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=300, special_tokens=SPECIALS, unk_token="<unk>", show_progress=False
    )
    tokenizer.train_from_iterator(LINES, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", 1)]
    )
    return tokenizer


@pytest.mark.parametrize(
    "before",
    [
        [pre_tokenizers.Metaspace()],
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()],
    ],
)
def test_unigram(tmp_path, before):
    tokenizer = unigram(before)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    vocabulary = load_vocabulary(tmp_path, 0)
    assert vocabulary.tokenizer_type == "unigram"
    for line in LINES:
        expected = tokenizer.encode(line, add_special_tokens=False).ids
        assert vocabulary.encode(line)[0].tolist() == expected
    token, starts = vocabulary.encode("ba ba")
    assert vocabulary.decode(token) == "ba ba" and starts.sum() == 2
    vocab = vocabulary.vocab
    assert (vocab.bos_id, vocab.eos_id, vocab.mask_id) == (4, 5, 6)  # <cls>, <sep>
    folder = tmp_path / "again"
    folder.mkdir()
    assert load_vocabulary(vocabulary.save(folder), 0).sha256 == vocabulary.sha256


def test_vocab_json_and_merges(tmp_path):
    tokenizer = tokenizers.ByteLevelBPETokenizer()
    tokenizer.train_from_iterator(
        LINES, vocab_size=400, special_tokens=SPECIALS, show_progress=False
    )
    tokenizer.save_model(str(tmp_path))
    for path in (tmp_path, tmp_path / "vocab.json"):
        vocabulary = load_vocabulary(path, 0)
        assert vocabulary.tokenizer_type == "bytebpe"
        for line in LINES:
            expected = tokenizer.encode(line).ids
            assert vocabulary.encode(line)[0].tolist() == expected
        assert vocabulary.decode([*range(len(SPECIALS)), *expected]) == LINES[-1]
    assert vocabulary.vocab.pad_id == 0


def few_bytes(unk_token, letters=()):
    """Byte-level BPE that has the bytes of its training text, and some letters."""
    tokenizer = tokenizers.Tokenizer(models.BPE(unk_token=unk_token))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        special_tokens=["<unk>"], initial_alphabet=[*letters], show_progress=False
    )
    tokenizer.train_from_iterator(["très peu. ab"], trainer)
    return tokenizer


def test_byte_level_bpe_spells_each_byte_or_has_an_unknown_token(tmp_path):
    few_bytes(None).save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(
        UserError, match=r"no piece for \d+ bytes, such as 0x21, and no"
    ):
        load_vocabulary(tmp_path, 0)
    few_bytes("<unk>").save(str(tmp_path / "tokenizer.json"))
    vocabulary = load_vocabulary(tmp_path, 0)
    token, starts = vocabulary.encode("peu été. ab 学")
    unknown = token == vocabulary.vocab.unk_id
    assert unknown.sum() == 2 + 3  # the second byte of each é; the three of 学
    pieces = [vocabulary.piece_text(each) for each in token[starts]]
    assert [each[:2] for each in pieces] == ["pe", " ", ".", " a", " "]
    letters = {*pre_tokenizers.ByteLevel.alphabet()} - {"À", "Á", "ÿ"}  # in no text
    few_bytes(None, letters).save(str(tmp_path / "tokenizer.json"))
    vocabulary = load_vocabulary(tmp_path, 0)
    assert vocabulary.decode(vocabulary.encode("ÿ 学")[0]) == "ÿ 学"


def byte_fallback_bpe():
    """Llama's kind of file: BPE with marks of words' starts, and bytes."""
    specials = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    tokenizer = tokenizers.Tokenizer(models.BPE(byte_fallback=True, fuse_unk=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    trainer = trainers.BpeTrainer(
        vocab_size=700, special_tokens=specials, limit_alphabet=60, show_progress=False
    )
    tokenizer.train_from_iterator(LINES, trainer)
    state = json.loads(tokenizer.to_str())
    state["added_tokens"] = state["added_tokens"][:3]  # bytes are ordinary pieces
    return tokenizers.Tokenizer.from_str(json.dumps(state))


def test_bpe_with_byte_fallback(tmp_path):
    tokenizer = byte_fallback_bpe()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    vocabulary = load_vocabulary(tmp_path, 0)
    assert vocabulary.tokenizer_type == "bpe"
    for line in LINES:
        token, _ = vocabulary.encode(line)
        # White space is one space here; Llama keeps it.
        one_space = " ".join(line.split())
        expected = tokenizer.encode(one_space, add_special_tokens=False)
        assert token.tolist() == expected.ids
        assert vocabulary.decode(token) == one_space
    assert any("<0x" in piece for piece in expected.tokens)


def gemma():
    """Gemma's kind of file: a mark for each space, and none before a text."""
    tokenizer = tokenizers.Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.pre_tokenizer = pre_tokenizers.Split("▁", "merged_with_next")
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=SPECIALS, show_progress=False
    )
    tokenizer.train_from_iterator(LINES, trainer)
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.Fuse()])
    return tokenizer


@pytest.mark.parametrize("make", [byte_fallback_bpe, gemma])
def test_bpe_with_marks_is_exported_with_the_spaces_of_the_vocabulary(tmp_path, make):
    """One space before each word, also before the first."""
    make().save(str(tmp_path / "tokenizer.json"))
    vocabulary = load_vocabulary(tmp_path, 0)
    exported = export_tokenizer.make_tokenizer(vocabulary)
    exported.save(str(tmp_path / "tokenizer.json"))
    again = load_vocabulary(tmp_path, 0)
    for text in [*LINES, "raison  raison\n\traison ", "。 。言", ""]:
        token = vocabulary.encode(text)[0].tolist()
        words = [" " + word for word in text.split()]
        assert vocabulary.piece_text(token[0]).startswith(" ") if words else not token
        assert exported.encode(text, add_special_tokens=False).ids == token
        assert again.encode(text)[0].tolist() == token


def test_gpt_marks_the_ends_of_words(tmp_path):
    """Of vocab.json and merges.txt, and of tokenizer.json, with BERT's word starts."""
    tokenizer = tokenizers.Tokenizer(
        models.BPE(unk_token="<unk>", end_of_word_suffix="</w>")
    )
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.BPEDecoder(suffix="</w>")
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<unk>"],
        end_of_word_suffix="</w>",
        show_progress=False,
    )
    tokenizer.train_from_iterator(LINES, trainer)
    tokenizer.model.save(str(tmp_path))
    (tmp_path / "other").mkdir()
    tokenizer.save(str(tmp_path / "other" / "tokenizer.json"))
    for folder in (tmp_path, tmp_path / "other"):
        vocabulary = load_vocabulary(folder, 0)
        assert vocabulary.tokenizer_type == "wordbpe" and vocabulary.vocab.unk_id == 0
        for line in [*LINES, "don't"]:
            expected = tokenizer.encode(line, add_special_tokens=False).ids
            assert vocabulary.encode(line)[0].tolist() == expected
        token, starts = vocabulary.encode("Ba don't ba")
        assert vocabulary.decode(token) == "ba don ' t ba"
        words = [
            piece.endswith("</w>") for piece in tokenizer.encode("Ba don't ba").tokens
        ]
        assert starts.tolist() == [True, *words[:-1]]
    offsets = token_offsets("Ba don't ba", vocabulary)
    assert (offsets.end - offsets.begin).sum() == len("badon'tba")


def test_the_ids_of_xlm_r_are_moved(tmp_path):
    """sentencepiece.bpe.model has fairseq's specials before and behind its pieces."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES),
        model_writer=model,
        vocab_size=120,
        minloglevel=2,
    )
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    (tmp_path / "sentencepiece.bpe.model").write_bytes(model.getvalue())
    vocabulary = load_vocabulary(tmp_path, 0)
    for line in LINES:
        expected = [id_ + 1 if id_ > 2 else 3 for id_ in processor.encode(line)]
        assert vocabulary.encode(line)[0].tolist() == expected
    vocab = vocabulary.vocab
    assert (vocab.bos_id, vocab.pad_id, vocab.eos_id, vocab.unk_id) == (0, 1, 2, 3)
    assert vocab.mask_id == len(processor) + 1 and vocab.size == len(processor) + 2


def test_marian_has_the_ids_of_vocab_json(tmp_path):
    """Pieces of the target alone, which vocab.json has too, are never read, unless no
    piece has their letter."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES[:-2]),
        model_writer=model,
        vocab_size=90,
        minloglevel=2,
    )
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    own = [processor.id_to_piece(i) for i in range(3, len(processor))]
    names = ["</s>", "<unk>", *own[::-1], "raison", "\u2581raisons", "彼", "<pad>"]
    ids = {name: i for i, name in enumerate(names)}
    (tmp_path / "source.spm").write_bytes(model.getvalue())
    (tmp_path / "vocab.json").write_text(json.dumps(ids))
    vocabulary = load_vocabulary(tmp_path, 0)
    for line in [*LINES[:-1], "彼 raisons"]:
        pieces = processor.encode(line, out_type=str)
        expected = [ids.get(piece, ids["<unk>"]) for piece in pieces]
        assert vocabulary.encode(line)[0].tolist() == expected
    vocab = vocabulary.vocab
    assert (vocab.eos_id, vocab.unk_id, vocab.pad_id) == (0, 1, len(ids) - 1)
    (tmp_path / "vocab.json").write_text(json.dumps({"<unk>": 0, "</s>": 1}))
    with pytest.raises(UserError, match=r"vocab\.json beside it lacks the piece"):
        load_vocabulary(tmp_path, 0)
    (tmp_path / "vocab.json").unlink()
    with pytest.raises(UserError, match="no such file"):
        load_vocabulary(tmp_path, 0)


def small_wordpiece():
    """WordPiece that cuts text at white space alone."""
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "[", "##M", "##ASK]"]
    ids = {piece: i for i, piece in enumerate(pieces)}
    tokenizer = tokenizers.Tokenizer(models.WordPiece(ids, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.add_special_tokens(pieces[:5])
    return tokenizer


def small_bpe():
    """BPE whose merges make a special piece."""
    merges = [("<", "/"), ("</", "s"), ("</s", ">")]
    pieces = ["<unk>", "</s>", "▁", *"a[MASK]</s>", "</", "</s"]
    ids = {piece: i for i, piece in enumerate(dict.fromkeys(pieces))}
    tokenizer = tokenizers.Tokenizer(models.BPE(ids, merges, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.add_special_tokens(["<unk>", "</s>"])
    return tokenizer


def small_unigram():
    """T5's kind of file, whose special pieces have the best score."""
    specials = ["<pad>", "</s>", "<unk>", "<extra_id_0>", "[MASK]"]
    pieces = [(piece, 0.0) for piece in specials]
    pieces += [(letter, -2.0) for letter in "▁a<>[]/_MASKextrids0"]
    tokenizer = tokenizers.Tokenizer(models.Unigram(pieces, unk_id=2))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.add_special_tokens(specials)
    return tokenizer


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (small_unigram, "a </s> a[MASK] <extra_id_0>a"),
        (small_wordpiece, "a [MASK] a"),
        (small_bpe, "a </s> a</s>"),
    ],
)
def test_a_text_that_spells_a_special_piece_is_text(tmp_path, make, text):
    make().save(str(tmp_path / "tokenizer.json"))
    vocabulary = load_vocabulary(tmp_path, 1)
    token, _ = vocabulary.encode(text)
    vocab = vocabulary.vocab
    assert not vocab.is_special[token].any() and vocab.unk_id not in token
    assert vocabulary.decode(token) == text
    assert vocabulary.model.version >= 3
    pieces = vocabulary.model.pieces
    assert all(piece in pieces for piece in make().get_vocab())


def test_other_kinds_are_refused_by_name(tmp_path):
    path = tmp_path / "tokenizer.json"
    tokenizers.Tokenizer(models.WordLevel({"a": 0}, "a")).save(str(path))
    with pytest.raises(UserError, match="WordLevel; give one of WordPiece, Unigram"):
        load_vocabulary(tmp_path, 0)
    tokenizers.Tokenizer(models.BPE({"a": 0}, [])).save(str(path))
    with pytest.raises(UserError, match="BPE that marks no words"):
        load_vocabulary(tmp_path, 0)
