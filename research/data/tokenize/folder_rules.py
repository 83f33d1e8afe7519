"""Rules for reading text that a folder has next to its model file.

They are applied as by AutoTokenizer of transformers 5.24 (models/auto/
tokenization_auto.py, and __init__ of the tokenizer's class): the class is that of
tokenizer_config.json, or else of config.json; a key that a class knows overrides
tokenizer.json, even by its default.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from etils import epath

from research.contract.errors import UserError
from research.contract.notices import report
from research.files.existence import is_file
from research.files.json_files import parse_json, read_file

CONFIG = "tokenizer_config.json"
ADDED = "added_tokens.json"
SPECIAL = "special_tokens_map.json"
MODEL = "config.json"

SAME = {
    "ElectraTokenizer": "BertTokenizer",
    "DistilBertTokenizer": "BertTokenizer",
    "MPNetTokenizer": "BertTokenizer",
    "BartTokenizer": "RobertaTokenizer",
    "LongformerTokenizer": "RobertaTokenizer",
    "Qwen3Tokenizer": "Qwen2Tokenizer",
}
"""Class -> the class whose rules it has."""
ANY = ("", "PreTrainedTokenizer", "TokenizersBackend")
"""Names of the classes that have no rules of their own."""
TXT, JSON = "vocab.txt", "vocab.json"
ROLES = ("unk", "pad", "cls", "sep", "mask", "bos", "eos")
QWEN_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+"
    r"[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""Pattern of Qwen's words (models/qwen2/tokenization_qwen2.py)."""


class FolderRules(NamedTuple):
    """What a folder says about its tokenizer.

    Attributes:
      tokenizer_class: as named in `SAME`, without "Fast"; "": none is named.
      keys: those of tokenizer_config.json and special_tokens_map.json.
      added: pieces that are added to those of the model file, in order, in the form of
        tokenizer.json, without ids.
      has_config: there is a tokenizer_config.json.
    """

    tokenizer_class: str
    keys: Mapping[str, Any]
    added: tuple[dict[str, Any], ...]
    has_config: bool

    @property
    def own(self) -> "TokenizerClass":
        return CLASSES.get(self.tokenizer_class, TokenizerClass())

    def flag(self, name: str, default: bool | None) -> bool | None:
        """The value of a key: true, false or, if that is the default, null.

        Raises:
          UserError: it is something else.
        """
        value = self.keys.get(name, default)
        if not (isinstance(value, bool) or value is default):
            raise UserError(f"{CONFIG}: {name} must be true or false, got {value!r}")
        return value

    @property
    def unknown(self) -> str:
        """The piece for unknown text; "": none is named."""
        return _content(self.keys.get("unk_token")) or ""


class TokenizerClass(NamedTuple):
    """The rules of a class of transformers."""

    files: tuple[str, ...] = ()  # that are read: TXT, or JSON beside merges.txt
    rule: Callable[[FolderRules, dict], None] | None = None  # changes the state of its
    # tokenizer.json
    is_bare: bool = False  # it changes text before its SentencePiece model reads it
    marks_words: bool = False  # it puts a space before each word, unless a key says so
    composes: bool = False  # with JSON: text is NFC
    words: str = ""  # with JSON: the pattern of words; "": GPT-2's


def read_rules(folder: epath.Path) -> FolderRules:
    """The rules of a folder, which may have none of the files.

    Raises:
      UserError: one of the files is damaged, or holds something else.
    """
    config = _read(folder / CONFIG)
    keys, decoder = dict(config), config.get("added_tokens_decoder")
    if decoder is None:
        keys |= _read(folder / SPECIAL)
    name = config.get("tokenizer_class")
    if not name:
        model = _read(folder / MODEL)
        name = model.get("tokenizer_class")
        name = name or _class_of(str(model.get("model_type")))
    name = str(name).removesuffix("Fast")
    special = _special_pieces(keys)
    try:
        if decoder is None:
            numbers = {int(n): piece for piece, n in _read(folder / ADDED).items()}
            tokens = [
                _added(numbers[n], numbers[n] in special) for n in sorted(numbers)
            ]
        else:
            tokens = [
                _added(**each | {"special": each.get("special", False)})
                for _, each in sorted(decoder.items(), key=lambda item: int(item[0]))
            ]
    except (AttributeError, TypeError, ValueError) as error:
        raise UserError(
            f"{folder}: the added tokens of {CONFIG} or {ADDED} are damaged ({error})"
        ) from error
    known = {token["content"] for token in tokens}
    tokens += [_added(piece, True) for piece in special if piece not in known]
    return FolderRules(
        SAME.get(name, name), keys, tuple(tokens), is_file(folder / CONFIG)
    )


def _class_of(model_type: str) -> str:
    """The class named after a type of models; "": none with rules here."""
    letters = re.sub(r"[\W_]", "", model_type).lower()
    known = {*SAME, *CLASSES} - {*ANY}
    return next((n for n in sorted(known) if n.lower() == f"{letters}tokenizer"), "")


def _read(path: epath.Path) -> dict[str, Any]:
    """The object in a JSON file; {} if there is no such file."""
    if not is_file(path):
        return {}
    try:
        content = parse_json(read_file(path))
    except ValueError as error:
        raise UserError(f"{path} is not JSON ({error})") from error
    if not isinstance(content, dict):
        raise UserError(f"{path} is not a JSON object")
    return content


def _content(token: Any) -> str | None:
    """The piece of a token, which is a string or an object with its content."""
    content = token.get("content") if isinstance(token, dict) else token
    return content if isinstance(content, str) else None


def _special_pieces(keys: Mapping[str, Any]) -> list[str]:
    """The pieces of roles, and other special ones."""
    tokens = [keys.get(f"{role}_token") for role in ROLES]
    for name in ("additional_special_tokens", "extra_special_tokens"):
        tokens += keys[name] if isinstance(keys.get(name), list) else []
    return list(dict.fromkeys(filter(None, map(_content, tokens))))


def _added(content: str, special: bool, **fields: Any) -> dict[str, Any]:
    """A token in the form of tokenizer.json, without its id.

    Raises:
      TypeError: a field has another type.
    """
    flags = ("single_word", "lstrip", "rstrip")
    token = dict.fromkeys(flags, False) | {"normalized": not special}
    token |= {name: value for name, value in fields.items() if name in token}
    types = {type(each) for each in (special, *token.values())}
    if not isinstance(content, str) or not content or types != {bool}:
        raise TypeError(f"got {content!r}, {token}")
    return {"content": content, "special": special, **token}


def apply_rules(rules: FolderRules, data: bytes) -> bytes:
    """A `tokenizer.json` with its folder's rules; unchanged if it has them already.

    Raises:
      UserError: a key has a value that is not known here.
    """
    state = json.loads(data)
    changed = json.loads(data)
    if rules.own.rule:
        rules.own.rule(rules, changed)
    _add_tokens(changed, rules.added)
    _check_spaces(rules, changed)
    if changed == state:
        return data
    return json.dumps(changed, ensure_ascii=False).encode()


def _check_spaces(rules: FolderRules, state: dict) -> None:
    """Reports if units that are words begin or end at other positions.

    Raises:
      UserError: words are required to have no space before them.
    """
    steps = _steps(state["pre_tokenizer"], "pretokenizers")
    if any(step["type"] == "ByteLevel" for step in steps):
        return
    no_space = rules.flag("add_prefix_space", None) is False
    if no_space and rules.own.marks_words:
        raise UserError(
            f"{CONFIG}: add_prefix_space of a {rules.tokenizer_class} must be true "
            "here, where each word has a space before it"
        )
    if no_space and state["model"]["type"] == "BPE":
        report(
            f"{CONFIG}: add_prefix_space is false, but here each word has a space "
            "before it, the first of a text as well"
        )
    pieces = [token["content"] for token in state["added_tokens"]]
    if found := [piece for piece in pieces if any(map(str.isspace, piece))]:
        report(f"the added piece {found[0]!r} has white space, so no text gives it")


def _add_tokens(state: dict, added: tuple[dict[str, Any], ...]) -> None:
    """Adds pieces that a `tokenizer.json` lacks, after its last id."""
    vocabulary, tokens = state["model"]["vocab"], state["added_tokens"]
    if isinstance(vocabulary, dict):
        ids = dict(vocabulary)
    else:
        ids = {piece: number for number, (piece, _) in enumerate(vocabulary)}
    ids |= {token["content"]: token["id"] for token in tokens}
    known = {token["content"] for token in tokens}
    for token in added:
        if token["content"] not in known:
            number = ids.setdefault(token["content"], max(ids.values(), default=-1) + 1)
            tokens.append({"id": number, **token})


def bert_normalizer(rules: FolderRules) -> dict[str, Any]:
    """BERT's normalizer in the form of tokenizer.json."""
    return {
        "type": "BertNormalizer",
        "clean_text": True,
        "handle_chinese_chars": rules.flag("tokenize_chinese_chars", True),
        "strip_accents": rules.flag("strip_accents", None),
        "lowercase": rules.flag("do_lower_case", True),
    }


def _bert(rules: FolderRules, state: dict) -> None:
    if state["model"].get("type") == "WordPiece":
        state["normalizer"] = bert_normalizer(rules)
        state["pre_tokenizer"] = {"type": "BertPreTokenizer"}


def _byte_level(rules: FolderRules, state: dict) -> None:
    prefix = bool(rules.flag("add_prefix_space", None))
    for step in _steps(state["pre_tokenizer"], "pretokenizers"):
        if step["type"] == "ByteLevel":
            step["add_prefix_space"] = prefix


def _unigram(lowercase: bool, keys: tuple[str, ...]) -> Callable:
    """The rule of ALBERT and XLNet.

    Args:
      lowercase: the default of do_lower_case.
      keys: the other known keys.
    """

    def change(rules: FolderRules, state: dict) -> None:
        quotes = [
            {"type": "Replace", "pattern": {"String": marks}, "content": '"'}
            for marks in ("``", "''")
        ]
        accents = [{"type": "NFKD"}, {"type": "StripAccents"}]
        if "keep_accents" in keys and rules.flag("keep_accents", False):
            accents = []
        lower = [{"type": "Lowercase"}] * bool(rules.flag("do_lower_case", lowercase))
        steps = _steps(state["normalizer"], "normalizers")
        charsmap = [step for step in steps if step["type"] == "Precompiled"]
        made = [*quotes, *accents, *lower, *charsmap]
        state["normalizer"] = {"type": "Sequence", "normalizers": made}

    return change


def _steps(part: dict | None, name: str) -> list[dict]:
    return [] if part is None else part.get(name, [part])


CLASSES = {
    "BertTokenizer": TokenizerClass((TXT,), _bert),
    "GPT2Tokenizer": TokenizerClass((JSON,), _byte_level),
    "RobertaTokenizer": TokenizerClass((JSON,), _byte_level),
    "GPTNeoXTokenizer": TokenizerClass((JSON,), _byte_level, composes=True),
    "Qwen2Tokenizer": TokenizerClass(
        (JSON,), _byte_level, composes=True, words=QWEN_WORDS
    ),
    "OpenAIGPTTokenizer": TokenizerClass((JSON,)),
    "AlbertTokenizer": TokenizerClass(
        rule=_unigram(True, ("keep_accents",)), is_bare=True, marks_words=True
    ),
    "XLNetTokenizer": TokenizerClass(rule=_unigram(False, ()), is_bare=True),
    "CamembertTokenizer": TokenizerClass(marks_words=True),
    "XLMRobertaTokenizer": TokenizerClass(marks_words=True),
    **dict.fromkeys(ANY, TokenizerClass((TXT, JSON))),
}
"""Class -> its rules."""
