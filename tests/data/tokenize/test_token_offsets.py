"""Tokens stand for the characters of which their normalizer makes them."""

import io
import itertools

import pytest
import sentencepiece

from research.data.tokenize import export_tokenizer, normalization
from research.data.tokenize.token_offsets import (
    first_token_at,
    last_token_at,
    token_offsets,
)
from research.data.tokenize.tokenizer_models import HuggingFaceModel, SentencePieceModel
from research.data.tokenize.tokenizer_types import Options, special_pieces
from research.data.tokenize.tokenizer_types.wordpiece import wordpiece_json
from research.data.tokenize.train_tokenizer import train
from research.data.tokenize.vocabulary import Vocabulary, find_special_tokens
from tests.testing.fake_corpus import corpus_of, make_lines

CUTS = {
    "thai": "น้ำ|ใจ|ดำ|มาก",
    "half-width kana": "ﾊﾟ|ﾋﾞﾙ|ﾃﾞﾊﾟ|ﾊ",
    "ligatures": "ﬁ|ne| |ﬂ|o|w| |ﬃ",
    "decomposed": "Bo\u0308|hm| |cafe\u0301",
    "decomposed Hangul": "\u1112\u1161\u11ab|\u1100\u116e\u11a8",
    "wide": "１２|３| |㎏|①",
    "emoji": "🎈|a|🎈🎈|b|é",
    "marks": "a\u0301\u0302|b| |\u0130|x",
}
"""Text, cut where characters meet of which no token stands for both."""

LETTERS = "".join(CUTS.values()).replace("|", "").replace(" ", "")


def sentencepieces(rule, lines):
    """Pieces of characters; those that the lines lack are bytes."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=model,
        model_type="char",
        vocab_size=600,
        hard_vocab_limit=False,
        byte_fallback=True,
        normalization_rule_name=rule,
        minloglevel=2,
    )
    return SentencePieceModel(model.getvalue())


def exported(model):
    """The same as a tokenizer.json."""
    vocabulary = Vocabulary(model, find_special_tokens(model, 0))
    tokenizer = export_tokenizer.make_tokenizer(vocabulary)
    return HuggingFaceModel(tokenizer.to_str().encode())


def wordpiece(name):
    normalizer = normalization.make_normalizer(name, bert=True)
    letters = sorted({*normalizer.normalize_str(LETTERS)})
    pieces = [*special_pieces(0), *letters, *("##" + letter for letter in letters)]
    data = wordpiece_json(pieces, "<unk>", normalizer)
    return HuggingFaceModel(data)


def byte_level(name):
    return train(corpus_of(make_lines(0)), Options("bytebpe", 261, 0, normalizer=name))


MODELS = {
    f"{rule}, {what}": (make, rule, lines)
    for (what, lines), rule, make in itertools.product(
        {"characters": [LETTERS], "bytes": ["abc def"]}.items(),
        ("identity", "nfkc", "nmt_nfkc"),
        (sentencepieces,),
    )
}
MODELS |= {
    f"{name}, tokenizer.json": (lambda *args: exported(sentencepieces(*args)), *rest)
    for name, (_, *rest) in MODELS.items()
}
MODELS |= {
    f"{make.__name__} {name}": (make, name)
    for make in (wordpiece, byte_level)
    for name in ("none", "nfkc", "uncased")
}


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_a_part_of_a_word_is_cut_out(name, keep):
    make, *args = MODELS[name]
    model = make(*args)
    if keep and model.tokenizer_type != "bytebpe":
        return
    vocabulary = Vocabulary(model, find_special_tokens(model, 0), keep)
    for parts in CUTS.values():
        text, begin = parts.replace("|", ""), 0
        token, _ = vocabulary.encode(text)
        offsets = token_offsets(text, vocabulary)
        assert len(offsets.begin) == len(token)
        assert vocabulary.vocab.unk_id not in token
        for part in parts.split("|"):
            first = first_token_at(offsets, begin)
            last = last_token_at(offsets, begin + len(part) - 1)
            cut = text[offsets.begin[first] : offsets.end[last]]
            assert cut == part or not part.strip()
            begin += len(part)
