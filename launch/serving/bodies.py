"""JSON objects of requests and responses, and what they may say.

They have the schemas of `/answer`, of Hugging Face's question answering, and of
OpenAI's API.
"""

import base64
import itertools
import math
import secrets
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from research.contract.errors import UserError
from research.use.inference.completions import Completed, CompletionRequest
from research.use.inference.serving import QuestionInContext
from research.use.inference.token_log_probs import MOST

MAX_QUESTION, MAX_TOP_K, MAX_INPUTS, MAX_STOPS = 1000, 50, 16, 4
NEUTRAL = {
    "best_of": (None, 1),
    "frequency_penalty": (None, 0),
    "logit_bias": (None, {}),
    "presence_penalty": (None, 0),
    "stream": (None, False),
    "stream_options": (None,),
    "suffix": (None, ""),
}
"""Fields of OpenAI's completions that mean nothing here, and the values that ask for
nothing."""
COMPLETIONS = ("echo", "logprobs", "max_tokens", "model", "n", "prompt", "seed", "stop")
COMPLETIONS += ("temperature", "top_p", "user")


def question(body: Mapping[str, Any]) -> str:
    """The question of a request.

    Raises:
      UserError: it is blank, too long or no text.
    """
    text = body.get("question")
    if not isinstance(text, str) or not text.strip():
        raise UserError("question must be a text that is not blank")
    if len(text) > MAX_QUESTION:
        raise UserError(f"question must have at most {MAX_QUESTION} characters")
    return text


def top_k(body: Mapping[str, Any], default: int) -> int:
    """How many answers are asked for, from 1 to `MAX_TOP_K`."""
    return _whole(body, "top_k", default, 1, MAX_TOP_K)


def question_answering(body: Mapping[str, Any]) -> tuple[QuestionInContext, int]:
    """The question with its context, and how many answers are asked for."""
    inputs, parameters = body.get("inputs"), body.get("parameters", {})
    if not isinstance(inputs, dict) or not isinstance(parameters, dict):
        raise UserError('inputs must be an object with "question" and "context"')
    context = inputs.get("context")
    if not isinstance(context, str) or not context.strip():
        raise UserError("inputs.context must be a text that is not blank")
    return QuestionInContext(question(inputs), context), top_k(parameters, 1)


def embeddings(body: Mapping[str, Any]) -> tuple[list[str], str]:
    """The texts, and the form of their vectors: float or base64."""
    form = body.get("encoding_format", "float")
    if form not in ("float", "base64"):
        raise UserError("encoding_format must be float or base64")
    if body.get("dimensions") is not None:
        raise UserError("dimensions cannot be set: the model determines them")
    texts = _texts(body, "input")
    if not all(text.strip() for text in texts):
        raise UserError("input has a blank text")
    return texts, form


def embeddings_response(model: str, embedded: Any, form: str) -> dict[str, Any]:
    """The response to a request for vectors.

    Args:
      embedded: `vectors`, float32 [texts, D], and `num_tokens`.
    """

    def spelled(vector: np.ndarray) -> Any:
        if form == "float":
            return vector.tolist()
        return base64.b64encode(vector.astype("<f4").tobytes()).decode()

    data = [
        {"object": "embedding", "index": index, "embedding": spelled(vector)}
        for index, vector in enumerate(embedded.vectors)
    ]
    usage = {"prompt_tokens": embedded.num_tokens, "total_tokens": embedded.num_tokens}
    return {"object": "list", "model": model, "data": data, "usage": usage}


def completions(body: Mapping[str, Any]) -> tuple[list[CompletionRequest], int, bool]:
    """The texts that are asked for, by prompt and choice.

    With them come the number of choices, and whether the texts begin with their
    prompts.
    """
    for name, value in body.items():
        if name in NEUTRAL and value not in NEUTRAL[name]:
            raise UserError(f"{name}: this server does not support it")
        if name not in NEUTRAL and name not in COMPLETIONS:
            raise UserError(f"unknown field {name}; known: {', '.join(COMPLETIONS)}")
    prompts, count = _prompts(body), _whole(body, "n", 1, 1, MAX_INPUTS)
    if len(prompts) * count > MAX_INPUTS:
        raise UserError(f"n times the prompts must be at most {MAX_INPUTS}")
    echo = body.get("echo") or False
    if not isinstance(echo, bool):
        raise UserError("echo must be true or false")
    stop = body.get("stop") or []
    stop = [stop] if isinstance(stop, str) else stop
    if not isinstance(stop, list) or len(stop) > MAX_STOPS or not _are_texts(stop):
        raise UserError(f"stop must be a text, or a list of at most {MAX_STOPS} texts")
    seed = _whole(body, "seed", secrets.randbelow(2**31), 0, 2**31 - 1)
    shared = {
        "max_tokens": _whole(body, "max_tokens", 16, 1, 2**20),
        "temperature": _number(body, "temperature", 1.0, 0.0, 2.0),
        "top_p": _number(body, "top_p", 1.0, 0.0, 1.0),
        "seed": seed,
        "stop": tuple(filter(None, stop)),
        "log_probs": body.get("logprobs") is not None,
    }
    num_log_probs(body)  # raises before anything is written
    repeated = [prompt for prompt in prompts for _ in range(count)]
    asked = [CompletionRequest(p, choice=c, **shared) for c, p in enumerate(repeated)]
    return asked, count, echo


def num_log_probs(body: Mapping[str, Any]) -> int:
    """How many of the likeliest tokens are asked for at each position."""
    return _whole(body, "logprobs", 0, 0, MOST)


def completions_response(
    model: str,
    written: Sequence[Completed],
    *,
    count: int,
    echo: bool,
    most: int,
) -> dict[str, Any]:
    """OpenAI's answer.

    Args:
      most: the likeliest tokens of each position that are given.
      count: the number of choices of a prompt.
    """
    choices = [
        {
            "text": (text.prompt if echo else "") + text.text,
            "index": index,
            "logprobs": _log_probs(text, most, echo=echo),
            "finish_reason": text.finish_reason,
        }
        for index, text in enumerate(written)
    ]
    of_prompts = sum(text.prompt_tokens for text in written[::count])
    new = sum(text.new_tokens for text in written)
    return {
        "id": f"cmpl-{secrets.token_hex(12)}",
        "object": "text_completion",
        "created": int(time.time()),
        "model": model,
        "choices": choices,
        "usage": {
            "prompt_tokens": of_prompts,
            "completion_tokens": new,
            "total_tokens": of_prompts + new,
        },
    }


def _log_probs(text: Completed, most: int, *, echo: bool) -> dict[str, Any] | None:
    """Tokens with their log p and the likeliest ones, of the prompt with echo alone."""
    if (found := text.log_probs) is None:
        return None
    first = 0 if echo else len(found.text) - text.new_tokens
    tokens = found.text[first:]
    top = [
        dict(zip(best[:most], map(float, log_p), strict=False))
        for best, log_p in zip(found.best, found.best_log_p, strict=True)
    ]
    return {
        "tokens": tokens,
        "token_logprobs": [
            None if math.isnan(p) else p for p in found.log_p[first:].tolist()
        ],
        "top_logprobs": [row or None for row in top[first:]] if most else None,
        "text_offset": [*itertools.accumulate(map(len, tokens), initial=0)][:-1],
    }


def _prompts(body: Mapping[str, Any]) -> list[str | tuple[int, ...]]:
    """Texts, or lists of tokens."""
    prompts = body.get("prompt")
    if _are_tokens(prompts):
        return [tuple(prompts)]
    if isinstance(prompts, list) and prompts and all(map(_are_tokens, prompts)):
        return [tuple(each) for each in prompts]
    return [*_texts(body, "prompt")]


def _are_tokens(value: Any) -> bool:
    is_list = isinstance(value, list) and bool(value)
    return is_list and all(type(token) is int for token in value)


def _are_texts(values: Sequence[Any]) -> bool:
    return all(isinstance(value, str) for value in values)


def _texts(body: Mapping[str, Any], name: str) -> list[str]:
    texts = body.get(name)
    texts = [texts] if isinstance(texts, str) else texts
    is_list = isinstance(texts, list) and 0 < len(texts) <= MAX_INPUTS
    if not is_list or not _are_texts(texts):
        raise UserError(f"{name} must be a text, or a list of 1 to {MAX_INPUTS}")
    return texts


def _whole(
    body: Mapping[str, Any], name: str, default: int, least: int, most: int
) -> int:
    value = default if body.get(name) is None else body[name]
    if type(value) is not int or not least <= value <= most:
        raise UserError(f"{name} must be a whole number from {least} to {most}")
    return value


def _number(
    body: Mapping[str, Any], name: str, default: float, least: float, most: float
) -> float:
    value = default if body.get(name) is None else body[name]
    if type(value) not in (int, float) or not least <= value <= most:
        raise UserError(f"{name} must be a number from {least:g} to {most:g}")
    return float(value)
