"""Tokenizer files in all their layouts, read as one of the tokenizer models."""

import json
import re
from collections.abc import Sequence

import tokenizers
from etils import epath
from sentencepiece import sentencepiece_model_pb2
from tokenizers import decoders, models, normalizers, pre_tokenizers

from research.contract.errors import UserError
from research.contract.notices import report
from research.data.tokenize.folder_rules import (
    CLASSES,
    JSON,
    TXT,
    FolderRules,
    apply_rules,
    bert_normalizer,
    read_rules,
)
from research.data.tokenize.rust_panics import panics_as_errors
from research.data.tokenize.tokenizer_models import (
    HuggingFaceModel,
    SentencePieceModel,
    TokenizerModel,
)
from research.data.tokenize.tokenizer_types.wordbpe import WORD_END
from research.data.tokenize.tokenizer_types.wordpiece import SPECIAL, wordpiece_json
from research.files.existence import is_file

FAIRSEQ_FILE = "sentencepiece.bpe.model"
"""XLM-R's file: a SentencePiece model whose ids fairseq moved."""
FAIRSEQSPECIALS = ("<s>", "<pad>", "</s>", "<unk>")
MARIAN_FILE = "source.spm"
"""Marian's file: a SentencePiece model whose pieces have the ids of vocab.json."""
NEVER_BEST = -1e4
"""The score of a piece that SentencePiece does not have: the pieces of its letters are
always better."""
MODEL_FILES = (
    "tokenizer.json",
    "tokenizer.model",
    "vocab.txt",
    "spiece.model",
    "spm.model",
    FAIRSEQ_FILE,
    MARIAN_FILE,
)
"""Names that the model file in a folder may have, in order of preference."""


def read_model(path: epath.Path) -> TokenizerModel:
    """The model in a file, or in a folder, with the rules of the folder.

    The folder holds one of `MODEL_FILES`, or vocab.json and merges.txt; the rules are
    those of `folder_rules`.

    Raises:
      FileNotFoundError: the file, or another one that it needs, does not exist.
      UserError: it is not of a known type.
    """
    file = path
    if path.is_dir():
        names = [name for name in MODEL_FILES if is_file(path / name)]
        file = path / (names[0] if names else "vocab.json")
    if not is_file(file):
        raise FileNotFoundError(file)
    merges = file.with_name("merges.txt")
    try:
        data, rules = file.read_bytes(), read_rules(file.parent)
        if file.name == MARIAN_FILE:
            ids = file.with_name("vocab.json").read_bytes()
            data = _marian_json(data, ids)
        elif file.name == FAIRSEQ_FILE:
            data = _fairseq_json(data)
        elif file.name == "vocab.json" and is_file(merges):
            data = _bpe_json(data, merges.read_text("utf-8"), rules)
        elif file.suffix == ".txt":
            data, rules = _read_vocab_txt(data.decode("utf-8-sig"), rules)
        elif file.suffix == ".model" and rules.own.is_bare:
            data = _bare_json(data)
        elif file.suffix != ".json":
            return parse_model(data, file.name)
        return parse_model(data, "tokenizer.json", rules)
    except UserError as error:
        raise UserError(f"data.vocabulary is {str(file)!r}: {error}") from error


def parse_model(
    data: bytes, file_name: str, rules: FolderRules | None = None
) -> TokenizerModel:
    """The model in the bytes of a tokenizer.json or of a SentencePiece model.

    Args:
      rules: those of its folder; None: it has none.

    Raises:
      UserError: the bytes are not a model of a known type.
    """
    try:
        if file_name.endswith(".json"):
            with panics_as_errors("it cannot be read"):
                return HuggingFaceModel(apply_rules(rules, data) if rules else data)
        return SentencePieceModel(data)
    except UserError:
        raise
    except Exception as error:  # each library raises its own, some plain Exception
        raise UserError(f"not a vocabulary file ({str(error)[:100]})") from error


def _read_vocab_txt(text: str, rules: FolderRules) -> tuple[bytes, FolderRules]:
    """A `tokenizer.json` of a `vocab.txt`, and the rules, with the case of its text.

    Without a tokenizer_config.json, text is lowercased if no piece except special ones
    has a capital letter.

    Raises:
      UserError: its class is not known, or there is no piece for unknown text.
    """
    _check_class(rules, TXT)
    pieces = text.replace("\r\n", "\n").split("\n")
    pieces = pieces[:-1] if pieces[-1] == "" else pieces
    has_case = any(p != p.lower() for p in pieces if not SPECIAL.fullmatch(p))
    if "do_lower_case" not in rules.keys:
        lowercase = rules.has_config or not has_case
        if has_case and rules.tokenizer_class:
            does = "lowercased, as by transformers" if lowercase else "not lowercased"
            report(
                "vocab.txt has capital letters, and no tokenizer_config.json with "
                f"do_lower_case is next to it: text is {does}"
            )
        rules = rules._replace(keys={**rules.keys, "do_lower_case": lowercase})
    unknown = [p for p in (rules.unknown, "[UNK]", "<unk>") if p and p in pieces]
    if not unknown:
        raise UserError("a vocab.txt is a WordPiece vocabulary with a line [UNK]")
    rule = bert_normalizer(rules)
    del rule["type"]
    normalizer = normalizers.BertNormalizer(**rule)
    return wordpiece_json(pieces, unknown[0], normalizer), rules


def _check_class(rules: FolderRules, file: str) -> None:
    """Raises UserError: a file of this class of tokenizers is not known."""
    if file not in rules.own.files:
        known = (name for name, each in CLASSES.items() if file in each.files)
        raise UserError(
            f"{file} of a {rules.tokenizer_class} is not known here; known: "
            f"{', '.join(filter(None, known))}; write its tokenizer.json where "
            "transformers is: AutoTokenizer.from_pretrained(DIR).save_pretrained(NEW)"
        )


def _bpe_json(vocab_json: bytes, merges: str, rules: FolderRules) -> bytes:
    """A `tokenizer.json` of the files vocab.json and merges.txt.

    Byte-level BPE has GPT-2's rules (transformers, models/gpt2/tokenization_gpt2.py).
    Pieces that mark the ends of words have GPT's, which are BERT's in lower case
    (models/openai/tokenization_openai.py); GPT's own code repaired text with ftfy and
    split it with spaCy.

    Raises:
      UserError: its class is not known.
    """
    _check_class(rules, JSON)
    vocabulary = json.loads(vocab_json)
    lines = [line for line in merges.split("\n") if not line.startswith("#version")]
    pairs = [tuple(line.split(" ")) for line in lines if line.strip()]
    if any(piece.endswith(WORD_END) for piece in vocabulary):
        unknown = "<unk>" if "<unk>" in vocabulary else None
        marks = {"end_of_word_suffix": WORD_END, "unk_token": unknown}
        model = tokenizers.Tokenizer(models.BPE(vocabulary, pairs, **marks))
        model.normalizer = normalizers.BertNormalizer(lowercase=True)
        model.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        model.decoder = decoders.BPEDecoder(suffix=WORD_END)
    else:
        model = tokenizers.Tokenizer(models.BPE(vocabulary, pairs))
        model.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        model.decoder = decoders.ByteLevel()
        if rules.own.composes:
            model.normalizer = normalizers.NFC()
        if rules.own.words:
            words = pre_tokenizers.Split(tokenizers.Regex(rules.own.words), "isolated")
            spelled = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
            model.pre_tokenizer = pre_tokenizers.Sequence([words, spelled])
    special = [p for p in vocabulary if re.fullmatch(r"</?\|?\w+\|?>", p)]
    model.add_special_tokens(special)
    return model.to_str().encode("utf-8")


def _marian_json(data: bytes, vocab_json: bytes) -> bytes:
    """A `tokenizer.json` of Marian's files source.spm and vocab.json.

    SentencePiece cuts a text, and pieces have their ids in vocab.json, which also has
    the pieces of the target (transformers, models/marian/tokenization_marian.py). Two
    differences remain: in a run of letters that source.spm lacks, those that the target
    has keep their ids; language codes in front of a text (>>fr<<) are read as text.

    Raises:
      UserError: the model is not unigram, or vocab.json lacks one of its pieces.
    """
    proto = sentencepiece_model_pb2.ModelProto.FromString(data)
    if proto.trainer_spec.model_type != 1:
        raise UserError("it is not a unigram model, as Marian's are")
    ids = json.loads(vocab_json)
    scores = {each.piece: each.score for each in proto.pieces if each.type == 1}
    names = sorted(ids, key=ids.get)
    if [ids[name] for name in names] != list(range(len(ids))) or "<unk>" not in ids:
        raise UserError("vocab.json beside it has no <unk>, or ids with gaps")
    if missing := [piece for piece in scores if piece not in ids]:
        raise UserError(f"vocab.json beside it lacks the piece {missing[0]!r}")
    pieces = [(name, scores.get(name, NEVER_BEST)) for name in names]
    special = [name for name in ("</s>", "<unk>", "<pad>") if name in ids]
    return _unigram_json(proto, pieces, special)


def _fairseq_json(data: bytes) -> bytes:
    """A `tokenizer.json` of XLM-R's SentencePiece model, with its model's ids.

    fairseq has <s>, <pad>, </s> and <unk> before the pieces, and <mask> after them
    (transformers, convert_slow_tokenizer.py, XLMRobertaConverter.vocab).
    """
    proto = sentencepiece_model_pb2.ModelProto.FromString(data)
    pieces = [(piece, 0.0) for piece in FAIRSEQSPECIALS]
    pieces += [(each.piece, each.score) for each in proto.pieces[3:]]
    pieces += [("<mask>", 0.0)]
    return _unigram_json(proto, pieces, [*FAIRSEQSPECIALS, "<mask>"])


def _bare_json(data: bytes) -> bytes:
    """A `tokenizer.json` of a SentencePiece model whose class `is_bare`."""
    proto = sentencepiece_model_pb2.ModelProto.FromString(data)
    pieces = [(each.piece, each.score) for each in proto.pieces]
    special = [
        each.piece
        for each in proto.pieces
        if each.type in (each.CONTROL, each.UNKNOWN) or SPECIAL.fullmatch(each.piece)
    ]
    return _unigram_json(proto, pieces, special)


def _unigram_json(
    proto: sentencepiece_model_pb2.ModelProto,
    pieces: Sequence[tuple[str, float]],
    special: Sequence[str],
) -> bytes:
    """A `tokenizer.json` of pieces in the order of their ids, with their scores."""
    unknown = [name for name, _ in pieces].index("<unk>")
    model = tokenizers.Tokenizer(models.Unigram(list(pieces), unk_id=unknown))
    if charsmap := proto.normalizer_spec.precompiled_charsmap:
        model.normalizer = normalizers.Precompiled(charsmap)
    model.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()]
    )
    model.decoder = decoders.Metaspace()
    model.add_special_tokens(list(special))
    return model.to_str().encode("utf-8")
