"""generation_config.json: how the makers of a model let it write."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from etils import epath

from research.contract.batch import VocabInfo
from research.contract.errors import UserError
from research.generation import samplers
from research.interop.huggingface.folder import CONFIG, read_json

FILE = "generation_config.json"
END, START = "eos_token_id", "decoder_start_token_id"
DEFAULTS = {"num_beams": 1, "length_penalty": 1.0}
"""Hugging Face's values of keys that are not given, where ours are others; of samples
also top_k 50."""
EARLY_STOPPING = {False: "heuristic", True: "first", "never": "never"}
NO_CHOICE = (
    *("transformers_version", "_from_model_config", "use_cache", "return_dict"),
    *("bos_token_id", "pad_token_id", START),
    *("output_scores", "output_logits", "return_dict_in_generate", "do_sample"),
    *("output_attentions", "output_hidden_states", "early_stopping", "is_assistant"),
    *("max_length", "min_length"),
)
"""Keys that do not choose tokens, or that are read elsewhere."""


def read_generation_config(
    folder: epath.PathLike, objective: Any, vocab: VocabInfo, config: Mapping[str, Any]
) -> tuple[dict[str, Any], list[str]]:
    """`generation_options` of a model's folder; if it has no such file, how texts end.

    Where the file does not say that, config.json does.

    Args:
      config: the content of config.json.

    Raises:
      UserError: the file is damaged, or a value of it is not legal.
    """
    path, found, others = Path(folder) / FILE, {}, []
    content = read_json(path) if path.is_file() else None
    try:
        if content is not None:
            found, others = generation_options(content, objective, vocab)
        if not content or content.get(END) is None:
            path = Path(folder) / CONFIG
            found |= _ends(config.get(END), vocab)
    except (TypeError, ValueError) as error:
        raise UserError(f"{path}: {error}") from error
    return found, others


def decoder_start(folder: epath.PathLike, config: Mapping[str, Any]) -> int | None:
    """The token with which a decoder starts; None: the files do not say.

    It is that of generation_config.json, else of config.json.
    """
    path = Path(folder) / FILE
    content = read_json(path) if path.is_file() else {}
    own = content.get(START)
    return config.get(START) if own is None else own


def _ends(given: Any, vocab: VocabInfo) -> dict[str, Any]:
    """The field `ends`, where other tokens than the vocabulary's eos end a text.

    Tokens that the model does not have are left out.

    Raises:
      ValueError: they are no ids.
    """
    ids = [] if given is None else given if isinstance(given, list) else [given]
    if not all(type(token) is int and token >= 0 for token in ids):
        raise ValueError(f"{END} must be an id or a list of ids, not {given!r}")
    ends = tuple(token for token in ids if token < vocab.size)
    return {"ends": ends} if ends and ends != (vocab.eos_id,) else {}


def _is_neutral(value: Any) -> bool:
    """Whether a key has no effect: a switch is off, a factor 1, or a penalty 0."""
    return value is not True and value in (False, 0, 1, [])


def generation_options(
    content: Mapping[str, Any], objective: Any, vocab: VocabInfo
) -> tuple[dict[str, Any], list[str]]:
    """Options of `research.generation.samplers`, and keys that have none.

    The search is Hugging Face's: texts are ranked by log p over a power of their
    length, and the beam stays full. max_length and min_length are read for an
    encoder-decoder alone, less its first token; those of a causal model would count the
    prompt. A forced first token may end our prompt already (BART's bos behind eos): it
    then counts as a new one. do_sample with several beams, which draws the beam's
    texts, becomes samples of single texts, and num_beams a key without a field.

    Raises:
      ValueError: a key has a value that Hugging Face would not take.
    """
    given = {key: value for key, value in content.items() if value is not None}
    found = {}
    fields = samplers.huggingface_keys()
    for key, field in fields.items():
        if key in given or key in DEFAULTS:
            found[field] = given.get(key, DEFAULTS.get(key))
    for key in ("suppress_tokens", "begin_suppress_tokens"):
        if not isinstance(given.get(key, []), Sequence):
            raise ValueError(f"{key} must be a list of ids, not {given[key]!r}")
    if "forced_bos" in found:
        prompt = objective.prompt([[int(vocab.ordinary_ids[0])]], vocab)
        if prompt.group["token"][0, -1] == found["forced_bos"]:
            del found["forced_bos"]
            found["counted"] = 1
    if objective.needs(vocab).stacks == "encoder_decoder":
        for key, field in (("max_length", "max_tokens"), ("min_length", "min_tokens")):
            if key in given and field not in found:
                found[field] = int(given[key]) - 1
    for field in ("max_tokens", "min_tokens"):
        if field in found:
            found[field] = max(0, int(found[field]) - found.get("counted", 0))
    early = given.get("early_stopping", False)
    if early not in EARLY_STOPPING:
        raise ValueError(
            f'early_stopping must be true, false or "never", not {early!r}'
        )
    found |= {"early_stopping": EARLY_STOPPING[early], "beam_rule": "huggingface"}
    draws = bool(given.get("do_sample"))
    method = samplers.search(found, draws=draws)["method"]
    found |= {"method": method} | _ends(given.get(END), vocab)
    others = [key for key in given if key not in (*fields, *NO_CHOICE, END)]
    others = [key for key in others if not _is_neutral(given[key])]
    if method not in samplers.options()["beams"]:
        others += ["num_beams"] * (int(found.pop("beams")) > 1)
    return ({"top_k": 50} if draws else {}) | found, others
