"""Continues prompts, each with its own temperature, in compiled shapes.

The shapes are compiled before the first request.
"""

import bisect
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from research.contract.errors import UserError
from research.generation.generate import (
    Text,
    check_written,
    find_writer,
    make_generate,
)
from research.generation.samplers import FOLDER, Writer, make_sampler
from research.generation.samplers.sample import Sampling
from research.generation.text import caught, decode_after, encode_prompt
from research.use.inference.language_model import LanguageModel
from research.use.inference.token_log_probs import CausalScorer, TokenLogProbs

ROWS = 4
"""Prompts that are continued at once."""
PROMPT_WIDTHS, NEW_TOKENS = (64, 512), (16, 256)
"""Positions of a prompt and new tokens at most: of each pair a function is compiled.
A network with fewer positions has half of them for new tokens."""
LEAST_TOP_P = 1e-6


class CompletionRequest(NamedTuple):
    """A request for a completion."""

    prompt: str | tuple[int, ...]  # a text, or its tokens, with or without bos
    max_tokens: int
    temperature: float = 1.0  # 0: the most probable token
    top_p: float = 1.0
    seed: int = 0
    choice: int = 0  # its number in a request: other numbers give other samples
    stop: tuple[str, ...] = ()  # texts before which it ends
    log_probs: bool = False  # whether those of its tokens are requested


class Completed(NamedTuple):
    """What was written after a prompt."""

    text: str
    finish_reason: str  # stop: by eos or a text of `stop`; length
    prompt_tokens: int
    new_tokens: int  # up to the one that ends it: eos, or that completes a stop
    prompt: str  # as a text
    log_probs: TokenLogProbs | None = None  # of the prompt and the new tokens


def _serving() -> dict[str, Any]:
    """The samplers that can write completions, by name."""
    every: dict[str, Any] = {
        name: FOLDER.part_class(name, "method") for name in FOLDER.names()
    }
    return {name: cls for name, cls in every.items() if cls.serves}


def _best_method(objective: Any) -> str:
    """The sampler that fits what an objective has learned to write."""
    known, writers = _serving(), objective.writers.values()
    able = [name for name, cls in known.items() if any(map(cls.writes, writers))]
    return max(able or known, key=lambda name: known[name].serves)


def _checked(method: str) -> str:
    """The method, checked.

    Raises:
      UserError: it cannot write completions.
    """
    if (name := method.rpartition(".")[2]) not in _serving():
        raise UserError(
            f"method {name} cannot serve completions, since it does not read "
            f"temperature, top_p and seed; {', '.join(_serving())} can"
        )
    return method


class Completer:
    """Continues prompts as in OpenAI's completions API.

    Penalties and suppressed tokens are the model's own (`LanguageModel.writing`). A
    masked model fills masks after a prompt, as many as its function is compiled for,
    and the first `max_tokens` are kept.

    Args:
      method: the sampler, one that `serves`; "": see there.

    Raises:
      UserError: the model does not continue its prompts (encoder-decoders), or has no
        readout; or the sampler does not serve, or does not write what it has learned.
    """

    def __init__(self, model: LanguageModel, method: str = ""):
        model.check_readout()
        self._run, self._vocabulary = model.run, model.run.vocabulary
        self._method = method or _best_method(self._run.objective)
        sampler = make_sampler(method=_checked(self._method))
        self._objective = find_writer(self._run.objective, sampler)
        fills_one = self._objective.fills_one_mask
        self._fills_masks = fills_one or sampler.order == "masks"
        prompt = [self._ordinary]
        layout = self._objective.prompt([prompt], self._vocabulary.vocab)
        if layout.encoder is not None or layout.appended == "mask":
            raise UserError(
                f"a model of objective {self._run.objective.name} does not continue "
                "its prompts: a generator is a causal model, such as lm or hf:DIR of "
                "a class ...ForCausalLM"
            )
        positions = self._run.network.options.max_positions or 2**20
        length = min(positions, self._run.config.data.length)
        host = Writer(
            self._objective, self._vocabulary.vocab, self._run.network.options
        )
        # Positions besides those of the prompt and new tokens: for drafts, for an end.
        own = layout.group["token"].shape[1] + sampler.max_tokens
        length -= max(0, sampler.positions_needed(host, prompt) - own)
        most = min(NEW_TOKENS[-1], length // 2)
        self._new_tokens = *(n for n in NEW_TOKENS if n < most), most
        widest = min(PROMPT_WIDTHS[-1], length - most)
        self._widths = *(n for n in PROMPT_WIDTHS if n < widest), widest
        if most < 1:
            raise UserError(f"the model has {length} positions; a generator needs more")
        self._generate = {
            shape: self._make_generate(model.writing, *shape)
            for shape in itertools.product(self._widths, self._new_tokens)
        }
        self._scorer = None
        if self._objective.pattern == "causal" and layout.appended == "nothing":
            width = self._widths[-1] + self._new_tokens[-1]
            self._scorer = CausalScorer(
                self._run, self._objective, batch=ROWS, width=width
            )

    @property
    def _ordinary(self) -> int:
        return int(self._vocabulary.vocab.ordinary_ids[0])

    def _make_generate(
        self, writing: Mapping[str, Any], width: int, new_tokens: int
    ) -> Callable[..., list[list[Text]]]:
        run = self._run
        most = {"max_tokens": new_tokens, "min_tokens": 0}  # overrides the model's own
        sampler = make_sampler({**writing, **most}, method=self._method)
        return make_generate(
            run.objective,
            run.network,
            run.params,
            self._vocabulary.vocab,
            run.mesh,
            sampler,
            batch=ROWS,
            width=width,
        )

    def complete(
        self, asked: Sequence[CompletionRequest]
    ) -> list[Completed | UserError]:
        """What is written for each request, or why nothing is.

        Reasons: a prompt is too long, too many new tokens are requested, or none may
        follow.

        A text does not depend on the others.
        """
        results: list[Any] = [None] * len(asked)
        by_shape: dict[tuple[int, int], list[tuple[int, _Row]]] = {}
        for number, request in enumerate(asked):
            row = results[number] = caught(self._prepare, request)
            if not isinstance(row, UserError):
                by_shape.setdefault(row.shape, []).append((number, row))
        for shape, rows in by_shape.items():
            for first in range(0, len(rows), ROWS):
                group = rows[first : first + ROWS]
                texts = self._write(shape, [row for _, row in group])
                for (number, _), text in zip(group, texts, strict=True):
                    results[number] = text
        return results

    def _prepare(self, asked: CompletionRequest) -> "_Row":
        if asked.log_probs and self._scorer is None:
            raise UserError(
                f"logprobs: a model of objective {self._run.objective.name} has none, "
                "since it is not causal"
            )
        token = self._encode(asked.prompt)
        if self._fills_masks and self._vocabulary.vocab.mask_id in token:
            raise UserError(
                "a prompt must have no masks, since they would be filled instead of "
                "continued; palimpsest generate fills masks"
            )
        layout = self._objective.prompt([token], self._vocabulary.vocab)
        length = layout.group["token"].shape[1]
        if length > self._widths[-1]:
            raise UserError(
                f"a prompt has at most {self._widths[-1]} tokens, special ones "
                f"included, not {length}"
            )
        if asked.max_tokens > self._new_tokens[-1]:
            raise UserError(
                f"max_tokens must be at most {self._new_tokens[-1]}, not "
                f"{asked.max_tokens}"
            )
        width = next(width for width in self._widths if length <= width)
        count = next(n for n in self._new_tokens if asked.max_tokens <= n)
        return _Row(asked, token, (width, count))

    def _encode(self, prompt: str | tuple[int, ...]) -> list[int]:
        """The tokens of a prompt, without bos."""
        if isinstance(prompt, str):
            return encode_prompt(self._vocabulary, prompt)
        vocab = self._vocabulary.vocab
        if wrong := [token for token in prompt if not 0 <= token < vocab.size]:
            raise UserError(
                f"tokens of a prompt must be from 0 to {vocab.size - 1}, got {wrong[0]}"
            )
        return [*prompt[prompt[:1] == (vocab.bos_id,) :]]

    def _write(
        self, shape: tuple[int, int], rows: Sequence["_Row"]
    ) -> list[Completed | UserError]:
        """The texts of at most `ROWS` rows, padded to `ROWS`."""
        filled = [*rows, *[rows[-1]] * (ROWS - len(rows))]
        asked = [row.asked for row in filled]
        sampling = Sampling(
            np.array([each.temperature for each in asked], np.float32),
            np.array([max(each.top_p, LEAST_TOP_P) for each in asked], np.float32),
            np.array([each.seed for each in asked], np.int32),
        )
        choices = [each.choice for each in asked]
        found = self._generate[shape]([row.token for row in filled], sampling, choices)
        written = [
            caught(self._written, row, texts)
            for row, texts in zip(rows, found[: len(rows)], strict=True)
        ]
        if not any(row.asked.log_probs for row in rows):
            return written
        return self._with_log_probs(rows, found, written)

    def _with_log_probs(
        self,
        rows: Sequence["_Row"],
        found: Sequence[Sequence[Text]],
        written: Sequence[Completed | UserError],
    ) -> list[Completed | UserError]:
        """What was written, with log p of its tokens up to the end."""
        assert self._scorer is not None
        eos_id, texts = self._vocabulary.vocab.eos_id, []
        for row, (text, *_), each in zip(rows, found, written, strict=False):
            new = 0 if isinstance(each, UserError) else each.new_tokens
            texts.append([*row.token, *[*text.tokens, eos_id][:new]])
        found_of_all, bos = self._scorer(texts), (self._vocabulary.vocab.bos_id,)
        results: list[Completed | UserError] = []
        for row, each, scores in zip(rows, written, found_of_all, strict=True):
            if isinstance(each, UserError) or not row.asked.log_probs:
                results.append(each)
                continue
            if row.asked.prompt[:1] == bos:  # clients count it as a token
                scores = scores.after_bos()
            results.append(each._replace(log_probs=scores))
        return results

    def _written(self, row: "_Row", texts: Sequence[Text]) -> Completed:
        check_written(texts)
        return self._completed(row, texts[0])

    def _completed(self, row: "_Row", text: Text) -> Completed:
        kept = text.tokens[: row.asked.max_tokens]
        # eos counts as a new token
        ended = text.ended and len(text.tokens) < row.asked.max_tokens
        written = decode_after(self._vocabulary, row.token, kept)
        num_prompt, num_new = len(row.token), len(kept) + ended
        prompt = row.asked.prompt
        if not isinstance(prompt, str):
            prompt = self._vocabulary.decode(prompt)
        if any(each in written for each in row.asked.stop):
            written, num_new = self._before_stop(row, kept)
            return Completed(written, "stop", num_prompt, num_new, prompt)
        reason = "stop" if ended else "length"
        return Completed(written, reason, num_prompt, num_new, prompt)

    def _before_stop(self, row: "_Row", kept: Sequence[int]) -> tuple[str, int]:
        """The text before the stop that is completed first, and a number of tokens.

        This many tokens complete the stop; one stop is in the text of `kept`.
        """

        def written(count: int) -> str:
            return decode_after(self._vocabulary, row.token, kept[:count])

        def has_stop(count: int) -> bool:
            return any(each in written(count) for each in row.asked.stop)

        counts = range(len(kept))  # has_stop is monotonic in the count
        count = bisect.bisect_left(counts, True, key=has_stop)
        text = written(count)
        cut = min(at for each in row.asked.stop if (at := text.find(each)) >= 0)
        return text[:cut], count

    def warm_up(self) -> None:
        """Compiles all shapes that occur."""
        if self._scorer:
            self._scorer([[self._ordinary]])
        for shape in self._generate:
            self._write(
                shape, [_Row(CompletionRequest("", 1), [self._ordinary], shape)]
            )


class _Row(NamedTuple):
    asked: CompletionRequest
    token: list[int]
    shape: tuple[int, int]  # of the prompt, and new tokens
