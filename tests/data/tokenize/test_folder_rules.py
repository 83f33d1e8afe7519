"""A folder's files next to the model file say how text is read, as in transformers.

The pieces are those of AutoTokenizer of transformers 5.24, but for text that spells a
special piece.
"""

import json

import pytest
import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers

from research.contract.errors import UserError
from research.contract.notices import report
from research.data.tokenize.vocabulary import load_vocabulary

SPECIAL = "[PAD] [UNK] [CLS] [SEP] [MASK]"
BERT = f"{SPECIAL} the old ulm cafe café The Ulm K . river ##s 中 国 中国"
BYTES = ["h", "e", "Ġ", "he", "Ġhe", "<|endoftext|>"]


def wordpiece(lowercase):
    """BERT's tokenizer.json."""
    pieces = BERT.split()
    model = tokenizers.Tokenizer(
        models.WordPiece({p: n for n, p in enumerate(pieces)}, unk_token="[UNK]")
    )
    model.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    model.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    model.decoder = decoders.WordPiece()
    model.add_special_tokens(pieces[:5])
    return json.loads(model.to_str())


def byte_level(prefix):
    """GPT-2's tokenizer.json, of all bytes and two merges."""
    letters = [*BYTES, *sorted({*pre_tokenizers.ByteLevel.alphabet()} - {*BYTES})]
    ids = {piece: number for number, piece in enumerate(letters)}
    model = tokenizers.Tokenizer(models.BPE(ids, [("h", "e"), ("Ġ", "he")]))
    model.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    model.decoder = decoders.ByteLevel()
    model.add_special_tokens(["<|endoftext|>"])
    return json.loads(model.to_str())


def unigram():
    """A tokenizer.json of ALBERT and XLNet, without lower case."""
    pieces = ["<pad>", "<unk>", "▁", "the", "The", "cafe", "café", '"']
    model = tokenizers.Tokenizer(models.Unigram([(p, -1.0) for p in pieces], unk_id=1))
    model.normalizer = normalizers.Sequence([normalizers.NFKD()])
    model.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()]
    )
    model.decoder = decoders.Metaspace()
    model.add_special_tokens(pieces[:2])
    return json.loads(model.to_str())


def write(folder, files):
    for name, content in files.items():
        text = content if isinstance(content, str) else json.dumps(content)
        (folder / name).write_text(text, "utf-8")


def pieces_of(folder, text):
    vocabulary = load_vocabulary(folder, 0)
    pieces = vocabulary.model.pieces
    return " ".join(pieces[n] for n in vocabulary.encode(text)[0]).replace("[UNK]", "?")


def is_named(name, **keys):
    return {"tokenizer_config.json": {"tokenizer_class": name, **keys}}


TEXT = "The café 中国 K rivers"
LOWER, CASED = "the cafe 中 国 ? river ##s", "The café 中 国 K river ##s"
VOCAB = {"vocab.txt": BERT.replace(" ", "\n")}
TYPE = {"config.json": {"model_type": "electra"}}
ADDED = {"added_tokens.json": {"<e>": 99, "foo": 98}}
E = {"content": "<e>", "normalized": False, "special": False}
BARE = {"merges.txt": "h e\nĠ he\n", "vocab.json": byte_level(False)["model"]["vocab"]}
ACCENTS = '▁ the ▁ cafe ▁ " ▁ the'


@pytest.mark.parametrize(
    ("files", "text", "expected"),
    [
        (VOCAB | is_named("BertTokenizer"), TEXT, LOWER),
        (VOCAB | is_named("BertTokenizer", do_lower_case=True), TEXT, LOWER),
        (VOCAB | is_named("BertTokenizerFast", do_lower_case=False), TEXT, CASED),
        (VOCAB | is_named("DistilBertTokenizer", do_lower_case=False), TEXT, CASED),
        (VOCAB | is_named("ElectraTokenizerFast", do_lower_case=False), TEXT, CASED),
        (VOCAB | is_named("MPNetTokenizer", do_lower_case=False), TEXT, CASED),
        (VOCAB | TYPE | is_named("", do_lower_case=False), TEXT, CASED),
        (VOCAB | TYPE, TEXT, CASED),  # no file says it: its capital letters do
        (
            VOCAB | is_named("BertTokenizer", strip_accents=False),
            TEXT,
            "the café 中 国 ? river ##s",
        ),
        (
            VOCAB | is_named("BertTokenizer", strip_accents=True, do_lower_case=False),
            TEXT,
            "The cafe 中 国 K river ##s",
        ),
        (
            VOCAB | is_named("BertTokenizer", tokenize_chinese_chars=False),
            TEXT,
            "the cafe 中国 ? river ##s",
        ),
        (VOCAB | is_named("BertTokenizer", unk_token="K"), "old x", "old K"),
        (
            VOCAB | {"special_tokens_map.json": {"unk_token": {"content": "K"}}},
            "old x",
            "old K",
        ),
        (VOCAB | ADDED | is_named("BertTokenizer"), "old<e>FOO", "old <e> foo"),
        (
            VOCAB | is_named("BertTokenizer", added_tokens_decoder={"99": E}),
            "old<e>x <E>",
            "old <e> ? ? ? ?",
        ),
        *(
            (
                {"tokenizer.json": wordpiece(lower)} | is_named(name, **keys),
                TEXT,
                expected,
            )
            for lower in (True, False)
            for name, keys, expected in (
                ("BertTokenizer", {"do_lower_case": True}, LOWER),
                ("BertTokenizer", {"do_lower_case": False}, CASED),
                ("BertTokenizerFast", {}, LOWER),
                (
                    "PreTrainedTokenizerFast",
                    {"do_lower_case": not lower},
                    [CASED, LOWER][lower],
                ),
            )
        ),
        ({"tokenizer.json": wordpiece(False)} | TYPE, TEXT, LOWER),
        (
            {"tokenizer.json": wordpiece(True)} | ADDED | is_named("BertTokenizer"),
            "old<e>FOO",
            "old <e> foo",
        ),
        *(
            (files | is_named(name, **keys), "he he", expected)
            for name in ("RobertaTokenizer", "GPT2TokenizerFast", "BartTokenizer")
            for files in (
                BARE,
                {"tokenizer.json": byte_level(True)},
                {"tokenizer.json": byte_level(False)},
            )
            for keys, expected in (
                ({}, "he Ġhe"),
                ({"add_prefix_space": True}, "Ġhe Ġhe"),
                ({"add_prefix_space": None}, "he Ġhe"),
            )
        ),
        ({"tokenizer.json": byte_level(True)}, "he he", "Ġhe Ġhe"),
        ({"tokenizer.json": byte_level(True)}, " he", "Ġhe"),
        ({"tokenizer.json": byte_level(True)}, "\nhe", "Ġ Ċ he"),
        (BARE | ADDED | is_named("GPT2Tokenizer"), "he<e>he", "he <e> he"),
        (
            {"tokenizer.json": unigram()} | is_named("AlbertTokenizer"),
            "The café `` the",
            ACCENTS,
        ),
        (
            {"tokenizer.json": unigram()}
            | is_named("AlbertTokenizerFast", do_lower_case=False, keep_accents=True),
            "The café '' the",
            '▁ The ▁ café ▁ " ▁ the',
        ),
        (
            {"tokenizer.json": unigram()} | is_named("XLNetTokenizer"),
            "The café `` the",
            ACCENTS.replace("the", "The", 1),
        ),
        (
            {"tokenizer.json": unigram(), "config.json": {"model_type": "albert"}},
            "The café `` the",
            ACCENTS,
        ),
    ],
)
def test_pieces(tmp_path, files, text, expected):
    write(tmp_path, files)
    assert pieces_of(tmp_path, text) == expected
    again = tmp_path / "again"
    again.mkdir()
    saved = load_vocabulary(tmp_path, 0).save(again)
    assert pieces_of(saved, text) == expected


@pytest.mark.parametrize(
    ("files", "fragment"),
    [
        (
            VOCAB | is_named("BertTokenizer", do_lower_case="no"),
            "must be true or false",
        ),
        (VOCAB | is_named("BertTokenizer", strip_accents=1), "must be true or false"),
        (
            VOCAB | is_named("BertJapaneseTokenizer"),
            "of a BertJapaneseTokenizer is not",
        ),
        (BARE | is_named("CLIPTokenizer"), "of a CLIPTokenizer is not known"),
        (VOCAB | {"tokenizer_config.json": []}, "is not a JSON object"),
        (VOCAB | {"tokenizer_config.json": "{"}, "is not JSON"),
        (VOCAB | {"added_tokens.json": {"<e>": "x"}}, "added tokens .* are damaged"),
        (VOCAB | is_named("B", added_tokens_decoder={"9": {}}), "are damaged"),
        (
            {"tokenizer.json": unigram()}
            | is_named("AlbertTokenizer", add_prefix_space=False),
            "add_prefix_space of a AlbertTokenizer must be true",
        ),
        (BARE | is_named("Qwen2Tokenizer", add_prefix_space=True), "not known here"),
    ],
)
def test_what_is_not_known_is_refused_in_one_line(tmp_path, files, fragment):
    write(tmp_path, files)
    with pytest.raises(UserError, match=fragment) as error:
        load_vocabulary(tmp_path, 0)
    assert "\n" not in str(error.value)


def test_files_that_agree_leave_the_model_file_as_it_is(tmp_path):
    write(tmp_path, {"tokenizer.json": wordpiece(True)} | is_named("BertTokenizer"))
    data = (tmp_path / "tokenizer.json").read_bytes()
    assert load_vocabulary(tmp_path, 0).model.data == data


def test_what_is_guessed_or_cannot_be_read_is_reported(tmp_path, capsys):
    report.cache_clear()
    write(tmp_path, VOCAB | TYPE | {"added_tokens.json": {"two words": 99}})
    load_vocabulary(tmp_path, 0)
    told = capsys.readouterr().err
    assert "no tokenizer_config.json with do_lower_case is next to it" in told
    assert "'two words' has white space" in told
