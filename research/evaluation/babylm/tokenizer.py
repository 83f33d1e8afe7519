"""A tokenizer.json, read as Hugging Face's PreTrainedTokenizerFast reads it."""

import json
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import tokenizers

from research.contract.errors import UserError
from research.data.tokenize.export_tokenizer import CONFIG, TOKENIZER, write_tokenizer

SPECIALS = "special_tokens_map.json"
ROLES = ("bos", "eos", "cls", "sep", "mask", "pad", "unk")
SPACED = (" .", " ?", " !", " ,", " ' ", " n't", " 'm", " 's", " 've", " 're")
"""Texts that lose their first space where clean_up_tokenization_spaces is set; the
fifth loses both (transformers, clean_up_tokenization)."""


class Tokens(NamedTuple):
    """The tokens of a text."""

    ids: list[int]
    ends: list[int]  # the character after each token; 0 for special ones


class Tokenizer:
    """A tokenizer and its special tokens.

    Args:
      folder: has tokenizer.json and, for the ids of special tokens,
        tokenizer_config.json or special_tokens_map.json.

    Raises:
      UserError: the folder has no tokenizer.json.
    """

    def __init__(self, folder: Path):
        if not (folder / TOKENIZER).is_file():
            raise UserError(f"{folder} has no {TOKENIZER}; put the model's there")
        state = json.loads((folder / TOKENIZER).read_text("utf-8"))
        config = _read(folder / SPECIALS) | _read(folder / CONFIG)
        cut = state.get("pre_tokenizer") or {}
        if cut.get("type") == "ByteLevel":
            # transformers 4 replaces the file's value with the config's.
            cut["add_prefix_space"] = bool(config.get("add_prefix_space", False))
        self._tokenizer = tokenizers.Tokenizer.from_str(json.dumps(state))
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._cleans_up = bool(config.get("clean_up_tokenization_spaces", False))
        self.names = {role: _name(config.get(f"{role}_token")) for role in ROLES}
        self.ids = {
            role: self._tokenizer.token_to_id(name) if name else None
            for role, name in self.names.items()
        }
        own_class = config.get("tokenizer_class", "PreTrained").startswith("PreTrained")
        names = config.get("model_input_names", ["token_type_ids"] * own_class)
        self.gives_token_types = "token_type_ids" in names
        extra = config.get("additional_special_tokens") or [None]
        self._first_extra = _name(extra[0])

    @property
    def vocab_size(self) -> int:
        """The number of entries, without added tokens."""
        return self._tokenizer.get_vocab_size(with_added_tokens=False)

    def encode(self, text: str, *, specials: bool = True) -> Tokens:
        """The tokens of a text, with or without the special ones of the template."""
        encoded = self._tokenizer.encode(text, add_special_tokens=specials)
        return Tokens(encoded.ids, [end for _, end in encoded.offsets])

    def decode(self, token: int) -> str:
        """The text of one token."""
        text = self._tokenizer.decode([token], skip_special_tokens=False)
        if self._cleans_up:
            for spaced in SPACED:
                text = text.replace(spaced, spaced.strip())
        return text

    def special(self, role: str) -> int:
        """The id of a role.

        If the tokenizer has no mask or bos, it is that of the first of
        additional_special_tokens, such as T5's <extra_id_0>.

        Raises:
          UserError: the tokenizer has neither.
        """
        if (own := self.ids[role]) is not None:
            return own
        if role in ("mask", "bos") and self._first_extra:
            return self._tokenizer.token_to_id(self._first_extra)
        raise UserError(
            f"the tokenizer has no {role} token, which this backend reads; name one in "
            f"{CONFIG}, or choose another --backend"
        )


def exported_tokenizer(model: Any) -> Tokenizer:
    """The tokenizer with which a run is exported.

    Args:
      model: a `research.use.inference.language_model.LanguageModel`.
    """
    with tempfile.TemporaryDirectory() as folder:
        write_tokenizer(
            Path(folder),
            model.run.vocabulary,
            rows=(model.specials.row("A"), model.specials.row("A", "B")),
            max_length=model.run.config.data.length,
        )
        return Tokenizer(Path(folder))


def _read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text("utf-8")) if path.is_file() else {}


def _name(token: Any) -> str | None:
    """The spelling of a token, which some files store with its properties."""
    return token["content"] if isinstance(token, dict) else token
