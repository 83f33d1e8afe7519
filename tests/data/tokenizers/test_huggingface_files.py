"""Tokenizer files of Hugging Face's layout give the ids of the library `tokenizers`."""

import pytest
import tokenizers
from tokenizers import (
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

from research.data.tokenizers.vocabulary import load_vocabulary
from research.errors import UserError
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
    assert vocabulary.vocab.pad_id == 0


def test_other_kinds_are_refused_by_name(tmp_path):
    (tmp_path / "merges.txt").write_text("#version: 0.2\na b</w>\n")
    (tmp_path / "vocab.json").write_text('{"a": 0, "b</w>": 1, "ab</w>": 2}')
    with pytest.raises(UserError, match="not byte-level"):
        load_vocabulary(tmp_path, 0)
    tokenizers.Tokenizer(models.WordLevel({"a": 0}, "a")).save(
        str(tmp_path / "tokenizer.json")
    )
    with pytest.raises(UserError, match="WordLevel; give one of WordPiece, Unigram"):
        load_vocabulary(tmp_path, 0)
