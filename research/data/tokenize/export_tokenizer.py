"""Writes a vocabulary as the tokenizer files that Hugging Face's AutoTokenizer loads.

The tokenizer splits a text into units by the rules of `Vocabulary.encode`, so both give
the same ids, with two exceptions: Hugging Face reads text that spells a special piece
as this piece, and does not split after a Chinese full stop that a normalizer changes
into another character, as NFKC changes ！ into !.
"""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tokenizers
from sentencepiece import sentencepiece_model_pb2
from tokenizers import decoders, normalizers, pre_tokenizers, processors

from research.data.tokenize import normalization
from research.data.tokenize.tokenizer_models import SentencePieceModel
from research.data.tokenize.tokenizer_types.sentencepiece_model import MARK
from research.data.tokenize.vocabulary import SPELLINGS, Vocabulary

TOKENIZER, CONFIG = "tokenizer.json", "tokenizer_config.json"

STOPS = "([^。！？｡]*[。！？｡]+[”’」』）》\"']*)"
"""Pattern of the end of a unit at Chinese full stops (`sentences.split_units`)."""

_WHITE = r"[\s\x1c-\x1f]"
"""White space of `str.split`, which a normalizer may take for something else."""

Row = Sequence[tuple[int | str, int]]
"""Ids around a text "A", or around two, "A" and "B", each with its token type."""


def write_tokenizer(
    folder: Path,
    vocabulary: Vocabulary,
    *,
    rows: tuple[Row, Row],
    max_length: int,
    token_types: bool = False,
) -> None:
    """Writes TOKENIZER and CONFIG.

    Args:
      rows: the row formats of one text and of two. Rows that end with eos and bos are
        padded on the left, since XLNet's classifiers read the last token.
      max_length: the maximum of tokens that the model reads.
      token_types: whether the model reads token types. Hugging Face's tokenizer gives
        only the inputs that CONFIG names.
    """
    tokenizer = make_tokenizer(vocabulary)
    names = special_names(vocabulary)
    tokenizer.post_processor = _template(rows, vocabulary)
    tokenizer.save(str(folder / TOKENIZER))
    ends = [piece for piece, _ in rows[0][-2:]]
    reads_last = ends == [vocabulary.vocab.eos_id, vocabulary.vocab.bos_id]
    config: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": max_length,
        "model_input_names": [
            "input_ids",
            *["token_type_ids"] * token_types,
            "attention_mask",
        ],
        "padding_side": "left" if reads_last else "right",
        "clean_up_tokenization_spaces": False,
        **{f"{role}_token": name for role, name in names.items()},
        "cls_token": names["bos"],
        "sep_token": names["eos"],
    }
    text = json.dumps(config, indent=2, ensure_ascii=False)
    (folder / CONFIG).write_text(text + "\n", "utf-8")


def special_names(vocabulary: Vocabulary) -> dict[str, str]:
    """The piece of each role: the model file's own, or the name of an added id."""
    pieces, names = vocabulary.model.pieces, {}
    for role, spellings in SPELLINGS.items():
        token = getattr(vocabulary.vocab, f"{role}_id")
        names[role] = pieces[token] if token < len(pieces) else spellings[0]
    return names


def make_tokenizer(vocabulary: Vocabulary) -> tokenizers.Tokenizer:
    """The tokenizer of texts, without a template of special tokens."""
    if isinstance(vocabulary.model, SentencePieceModel):
        tokenizer = _of_sentencepiece(vocabulary)
    else:
        data, as_is = vocabulary.model.data.decode(), vocabulary.type.exports_as_is
        one_space = not (as_is or vocabulary.keep_whitespace)
        if one_space:
            data = _without_white_space(data)
        tokenizer = tokenizers.Tokenizer.from_str(data)
        prefixes = vocabulary.keep_whitespace and vocabulary.model.prefixes_space
        if not (as_is or prefixes):
            tokenizer.pre_tokenizer = vocabulary.model.pre_tokenizer
        if one_space:
            steps = [vocabulary.model.normalizer]
            spaces = _one_space(" ", _white_space(vocabulary))
            tokenizer.normalizer = normalizers.Sequence([*spaces, *steps])
            cut = [tokenizer.pre_tokenizer] if tokenizer.pre_tokenizer else []
            tokenizer.pre_tokenizer = pre_tokenizers.Sequence([_after_stops(), *cut])
    tokenizer.no_padding()
    tokenizer.no_truncation()
    special, size = _added(vocabulary), len(vocabulary.model.pieces)
    tokenizer.add_special_tokens([special[i] for i in range(size, size + len(special))])
    tokenizer.add_special_tokens([*special_names(vocabulary).values()])
    return tokenizer


def _added(vocabulary: Vocabulary) -> dict[int, str]:
    """The ids after those of the model file, and their names."""
    size, vocab = len(vocabulary.model.pieces), vocabulary.vocab
    names = {id_: f"<extra_id_{n}>" for n, id_ in enumerate(vocab.sentinel_ids)}
    for role, name in special_names(vocabulary).items():
        names[getattr(vocab, f"{role}_id")] = name
    return {token: name for token, name in names.items() if token >= size}


def _without_white_space(data: str) -> str:
    """A `tokenizer.json` whose added tokens with white space are never found in text.

    Their ids are kept: they are pieces of the model, whose bytes are spelled otherwise.
    """
    state = json.loads(data)
    for token in list(state["added_tokens"]):
        if not token["special"] and re.search(r"\s", token["content"]):
            state["added_tokens"].remove(token)
            state["model"]["vocab"][token["content"]] = token["id"]
    return json.dumps(state)


def _white_space(vocabulary: Vocabulary) -> normalizers.Normalizer:
    """The step that replaces each run of white space between units by one space."""
    inside = "".join(f"\\x{ord(each):02x}" for each in vocabulary.model.removed_spaces)
    spaces = f"[{_WHITE}&&[^{inside}]]" if inside else _WHITE
    return normalizers.Replace(tokenizers.Regex(spaces + "+"), " ")


def _one_space(
    mark: str, white_space: normalizers.Normalizer
) -> list[normalizers.Normalizer]:
    """Each unit starts with one mark, and has no other white space."""
    return [
        white_space,
        normalizers.Strip(),
        normalizers.Replace(" ", mark),
        normalizers.Prepend(mark),
    ]


def _after_stops() -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.Split(tokenizers.Regex(STOPS), "isolated")


def _of_sentencepiece(vocabulary: Vocabulary) -> tokenizers.Tokenizer:
    """A SentencePiece model in the form of the library `tokenizers`."""
    proto = sentencepiece_model_pb2.ModelProto.FromString(vocabulary.model.data)
    tokenizer = tokenizers.Tokenizer(vocabulary.type.library_model(proto))
    white_space = _white_space(vocabulary)
    steps, rules = _one_space(MARK, white_space), proto.normalizer_spec
    if rules.precompiled_charsmap:  # SentencePiece then reads a last mark as a space
        steps.insert(0, normalizers.Replace(tokenizers.Regex(rf"{MARK}+(?=\s|$)"), ""))
    if rules.name in normalization.BY_CHARACTER:
        steps.insert(0, normalization.make_normalizer(rules.name))
    elif rules.precompiled_charsmap:
        steps.insert(0, normalizers.Precompiled(rules.precompiled_charsmap))
    steps.insert(0, white_space)
    tokenizer.normalizer = normalizers.Sequence(steps)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(MARK, "merged_with_next"), _after_stops()]
    )
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace(MARK, " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    special = [p.piece for p in proto.pieces if p.type in (p.CONTROL, p.UNKNOWN)]
    tokenizer.add_special_tokens(special)
    return tokenizer


def _template(
    rows: tuple[Row, Row], vocabulary: Vocabulary
) -> processors.TemplateProcessing:
    names = dict(enumerate(vocabulary.model.pieces)) | _added(vocabulary)
    single, pair = (
        [f"{names.get(piece, f'${piece}')}:{kind}" for piece, kind in row]
        for row in rows
    )
    ids = [(names[piece], piece) for piece, _ in rows[1] if piece in names]
    return processors.TemplateProcessing(single=single, pair=pair, special_tokens=ids)
