"""Serves a model to lm-evaluation-harness and to MTEB (extras `harness` and `mteb`).

    model = open_run("runs/wiki")
    lm_eval.simple_evaluate(model=language_model(model), tasks=["blimp"])
    mteb.evaluate(text_encoder(model), mteb.get_tasks(["STSBenchmark"]))

Requests are scored by the model's own objective: see `sentence_scores`. For mlm, dae
and bart, the harness's log-likelihood is a pseudo-log-likelihood.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from research.contract.errors import UserError
from research.evaluation.sentence_scores import Scorer
from research.generation import samplers
from research.generation.generate import methods_of
from research.generation.text import all_or_error

MAX_NEW_TOKENS = 256
"""Tokens of a generated text, unless the task sets it (lm_eval, huggingface.py)."""
LENGTH_KEYS = ("max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens")
"""Keys of a task for this number; the first that it has counts (lm_eval, utils.py,
normalize_gen_kwargs)."""
TOP_K = 50
"""Sample from the k most likely tokens, unless the task or the model sets k
(transformers, GenerationConfig)."""


def language_model(model: Any, method: str = "") -> Any:
    """The model as an `lm_eval.api.model.LM`.

    Args:
      model: from `open_run`; `run` is used, and `generate` and `writing` for texts.
      method: one of the objective's `score_methods`; "": its first.

    Raises:
      UserError: lm_eval is not installed, or the objective gives no score.
    """
    try:
        from lm_eval.api.model import LM
    except ModuleNotFoundError as error:
        raise UserError(
            f"{error.name} is not installed; it comes with the extra harness"
        ) from error
    scorer = Scorer(model.run, method, best=True)

    class Served(LM):
        """A request's args: (context, continuation), (text,) or (context, options)."""

        def loglikelihood(self, requests: Sequence[Any]) -> list[tuple[float, bool]]:
            """log p(continuation | context), and whether it is the greedy one."""
            contexts, texts = _columns(requests, 2)
            scores = scorer(texts, contexts, separator="", blank=True)
            return [(score.log_prob, bool(score.all_best)) for score in scores]

        def loglikelihood_rolling(self, requests: Sequence[Any]) -> list[float]:
            """log p of whole texts; long ones are read in windows."""
            scores = scorer(*_columns(requests, 1), blank=True)
            return [score.log_prob for score in scores]

        def generate_until(self, requests: Sequence[Any]) -> list[str]:
            """New text, up to the first of the task's stops."""
            by_options: dict[str, list[int]] = {}
            for number, request in enumerate(requests):
                by_options.setdefault(repr(request.args[1]), []).append(number)
            found = [""] * len(requests)
            for numbers in by_options.values():
                contexts = [requests[number].args[0] for number in numbers]
                texts = _generate(model, contexts, requests[numbers[0]].args[1])
                for number, text in zip(numbers, texts, strict=True):
                    found[number] = text
            return found

    return Served()


def text_encoder(model: Any, pool: str = "mean") -> Any:
    """The model as an `mteb.models.abs_encoder.AbsEncoder`, which compares by cosine.

    Args:
      model: from `open_run`; `encode` is used.
      pool: of `encode`.

    Raises:
      UserError: mteb is not installed.
    """
    try:
        from mteb.models import ModelMeta
        from mteb.models.abs_encoder import AbsEncoder
    except ModuleNotFoundError as error:
        raise UserError(
            f"{error.name} is not installed; it comes with the extra mteb"
        ) from error

    class Served(AbsEncoder):
        mteb_model_meta = ModelMeta.create_empty({"name": "palimpsest/run"})

        def encode(self, inputs: Iterable[dict], **kwargs: Any) -> np.ndarray:
            """[texts, D] float32 for batches of texts; tasks' prompts are ignored."""
            return model.encode(
                [text for batch in inputs for text in batch["text"]], pool
            )

    return Served()


def _columns(requests: Sequence[Any], count: int) -> list[list[str]]:
    """The first arguments of the requests, one list per argument."""
    return [[request.args[n] for request in requests] for n in range(count)]


def _generate(
    model: Any, contexts: Sequence[str], options: Mapping[str, Any]
) -> list[str]:
    """The model's continuations of contexts, each cut before its first stop string.

    A context that leaves no room for the text in `data.length` is truncated to its end,
    as in lm_eval's HFLM. If nothing can be written the text is empty, and standard
    error has the reason.

    Raises:
      UserError: the model writes no text, or none for any of these contexts, although
        one is not blank.
    """
    if not hasattr(model, "generate_each"):
        raise UserError("generate_until needs a model that writes text, from open_run")
    run = model.run
    chosen = _search(options, model.writing, methods_of(run.objective))
    length = run.network.options.max_positions or run.config.data.length
    found = []
    answers = model.generate_each(contexts, length=length, **chosen)
    if any(map(str.strip, contexts)) and all(isinstance(a, UserError) for a in answers):
        all_or_error(answers)
    stops = options.get("until") or []
    for answer in answers:
        if isinstance(answer, UserError):
            print(f"a text stays empty: {answer}", file=sys.stderr)
        text = "" if isinstance(answer, UserError) else answer[0].text
        for stop in [stops] if isinstance(stops, str) else stops:
            text = text.partition(stop)[0] if stop else text
        found.append(text)
    return found


def _search(
    asked: Mapping[str, Any], own: Mapping[str, Any], methods: Sequence[str]
) -> dict[str, Any]:
    """The options of `research.generation.samplers` for a task's text.

    They follow lm_eval's HFLM (utils.py, normalize_gen_kwargs; huggingface.py,
    _model_generate): the temperature is 0 unless the task sets it, and texts are
    sampled if it is above 0 and do_sample is not False. Otherwise they are written by
    beam search if the task, or else the model, has several beams, or else greedily. An
    objective that does not write in this order writes by its own default.

    Args:
      asked: the task's keys, as of Hugging Face's `generate`.
      own: the model's `writing`; `generate` reads from it what is not returned here.
      methods: the samplers of the model's objective.
    """
    keys = samplers.huggingface_keys()
    found = {keys[key]: value for key, value in asked.items() if key in keys}
    lengths = (asked[key] for key in LENGTH_KEYS if asked.get(key) is not None)
    found["max_tokens"] = int(next(lengths, MAX_NEW_TOKENS))
    temperature = float(found.pop("temperature", 0.0))
    draws = temperature > 0 and asked.get("do_sample") is not False
    if draws:
        drawn = {"temperature": temperature, "top_k": own.get("top_k", TOP_K)}
        found = drawn | found
    else:
        found = {"beams": own.get("beams", 1)} | found
    return samplers.search(found, draws=draws, methods=methods)
