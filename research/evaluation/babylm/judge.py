"""The interface of a model to the tasks: log-probabilities of the ends of texts."""

# N rows, L length, M of the encoder, K scored positions

import collections
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from research.contract.batch import input_group
from research.contract.errors import UserError
from research.data.progress import MANY, progress
from research.evaluation.babylm import backends
from research.evaluation.babylm.backends import Candidate, Row
from research.evaluation.babylm.tokenizer import Tokenizer
from research.evaluation.sentence_scores import (
    MIN_LENGTH,
    RowScorer,
    Scorer,
    check_method,
)
from research.objectives.layout import input_format
from research.objectives.losses.cross_entropy import masked_cross_entropy
from research.objectives.noise.scoring import ScoreRows

ROWS_PER_CALL = 4096
"""Rows of one shape that are made into arrays at once."""

OWN = "own"
"""The backend of the objective's score, for objectives that the pipeline lacks."""


class LogProb(NamedTuple):
    """The log-probability of a completion, or a score in its place."""

    total: float  # nats
    num_tokens: int


class Judge(Protocol):
    """What tasks require of a model.

    Attributes:
      backend: as in `backends.ROWS`, or OWN.
      vocab_size: entries of the vocabulary, for the surprisal of chance.
    """

    backend: str
    vocab_size: int

    def log_probs(self, candidates: Sequence[Candidate]) -> list[LogProb]:
        """The score of each candidate's completion, given what precedes it."""

    def word_surprisals(self, pairs: Sequence[tuple[str, str]]) -> np.ndarray:
        """[n] float64, nats: surprisals of words after contexts, as reading uses."""

    def num_pieces(self, word: str) -> int:
        """The number of tokens of a word inside a text."""

    def with_params(self, params: Any) -> "Judge":
        """The judge with the parameters of another checkpoint.

        Nothing is compiled anew.
        """


class PipelineJudge:
    """Scores that equal the pipeline's for the same model.

    Args:
      model: a `research.use.inference.language_model.LanguageModel`.
      tokenizer: that of the model's folder, or the exported one.
      backend: one of `backends.ROWS`.
      types_are_tokens: reading adds the vector of token 0 to each position, since it
        passes all that the tokenizer returns to the model, and GPT-2 embeds token
        types, which are 0, as tokens (transformers, GPT2Model).

    Raises:
      UserError: the network cannot serve the backend, or predicts no tokens.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Tokenizer,
        backend: str,
        *,
        types_are_tokens: bool = False,
    ):
        check_serves(model, backend)
        model.check_readout()
        self.backend, self.tokenizer = backend, tokenizer
        self.vocab_size = tokenizer.vocab_size
        self._most = model.run.config.data.length
        self._pad = model.run.vocabulary.vocab.pad_id
        self._is_causal = backend == "causal"
        self._types_are_tokens = types_are_tokens
        self._rows = RowScorer(model.run, _Objective(model.run.objective))

    def log_probs(self, candidates: Sequence[Candidate]) -> list[LogProb]:
        make = backends.ROWS[self.backend]
        return self._score([[*make(self.tokenizer, each)] for each in candidates])

    def word_surprisals(self, pairs: Sequence[tuple[str, str]]) -> np.ndarray:
        rows = [
            [*backends.word_rows(self.tokenizer, self.backend, context, word)]
            for context, word in pairs
        ]
        params = self._rows.params
        if self._types_are_tokens:
            position = params["embeddings"]["position"]
            position = position + params["token"]["embedding"][:1]
            self._rows.params = params | {"embeddings": {"position": position}}
        scores = self._score(rows)
        self._rows.params = params
        return -np.array([score.total for score in scores])

    def num_pieces(self, word: str) -> int:
        """Tokens of "The WORD" minus those of "The" (utils.py, AoAEvaluator)."""
        both, first = (
            len(self.tokenizer.encode(text, specials=False).ids)
            for text in (f"The {word}", "The")
        )
        return max(1, both - first)

    def with_params(self, params: Any) -> "PipelineJudge":
        self._rows.params = params
        return self

    def token_log_probs(self, candidate: Candidate) -> list[float]:
        """The log-probability of each scored token."""
        rows = [
            row._replace(scored=[at], target=[target])
            for row in backends.ROWS[self.backend](self.tokenizer, candidate)
            for at, target in zip(row.scored, row.target, strict=True)
        ]
        return [score.total for score in self._score([[row] for row in rows])]

    def _score(self, rows_of_texts: Sequence[Sequence[Row]]) -> list[LogProb]:
        """The score of each text, summed over its rows."""
        by_shape: dict[tuple, list] = collections.defaultdict(list)
        total = np.zeros(len(rows_of_texts))
        count = np.zeros(len(rows_of_texts), np.int64)
        for number, rows in enumerate(rows_of_texts):
            for row in map(self._fit, rows):
                count[number] += len(row.target)
                if row.target:
                    sizes = len(row.token), len(row.target), len(row.encoder)
                    shape = tuple(map(self._rounded, sizes))
                    by_shape[shape].append((number, row))
        num_rows, done = sum(map(len, by_shape.values())), 0
        with progress("scores", num_rows, silent=num_rows < MANY) as report:
            for shape, rows in sorted(by_shape.items()):
                made = self._arrays(rows, *shape)
                for own, loss, _ in self._rows(made, max(shape[0], shape[2])):
                    np.subtract.at(total, own.text, loss)
                    done += len(own.text)
                    report(done, f"{done} of {num_rows} rows")
        return [LogProb(float(x), int(n)) for x, n in zip(total, count, strict=True)]

    def _fit(self, row: Row) -> Row:
        """The row without tokens for which the model has no positions.

        Those right after its first token are removed.

        Raises:
          UserError: what is scored does not fit.
        """
        for name in ("token", "encoder"):
            ids = getattr(row, name)
            if (extra := len(ids) - self._most) <= 0:
                continue
            scored = [at - extra for at in row.scored] if name == "token" else []
            if scored and min(scored) < 1:
                raise UserError(
                    f"a text of {len(ids)} tokens is scored from its token "
                    f"{min(row.scored)}, but the model reads {self._most}; train with "
                    "a larger data.length"
                )
            row = row._replace(**{name: [ids[0], *ids[1 + extra :]]})
            row = row._replace(scored=scored or row.scored)
        return row

    def _rounded(self, size: int) -> int:
        """The size rounded up, so that few shapes are compiled."""
        if size <= 2:
            return size
        width = 1 << (size - 1).bit_length()
        return max(MIN_LENGTH, width)

    def _arrays(
        self, rows: Sequence[tuple[int, Row]], length: int, scored: int, encoder: int
    ) -> Iterator[ScoreRows]:
        for start in range(0, len(rows), ROWS_PER_CALL):
            text, some = zip(*rows[start : start + ROWS_PER_CALL], strict=True)
            padded = [_pad([row.token for row in some], length, self._pad)]
            if encoder:
                arrays = input_format.causal_input(*padded[0], "decoder_")
                read = _pad([row.encoder for row in some], encoder, self._pad)
                arrays |= input_format.full_input(*read, "encoder_")
            elif self._is_causal:
                arrays = input_format.causal_input(*padded[0])
            else:
                arrays = input_format.full_input(*padded[0])
            at, num = _pad([row.scored for row in some], scored, 0)
            target, _ = _pad([row.target for row in some], scored, self._pad)
            weight = (np.arange(scored) < num[:, None]).astype(np.float32)
            arrays |= {"scored": at, "target": target, "weight": weight}
            yield ScoreRows(np.array(text), arrays)


class OwnJudge:
    """Scores by the objective's method, for objectives that the pipeline lacks.

    A completion's score is that of its tokens given what precedes it; a word's
    surprisal is minus the score of the word after the context and a space.

    Args:
      method: one of the objective's `score_methods`; "": its first.
    """

    backend = OWN

    def __init__(self, model: Any, method: str = ""):
        model.check_readout()
        self.method = check_method(model.run.objective, method)
        self._scorer = Scorer(model.run, self.method)
        self._vocabulary = model.run.vocabulary
        self.vocab_size = self._vocabulary.vocab.size

    def log_probs(self, candidates: Sequence[Candidate]) -> list[LogProb]:
        begins = [c.text.removesuffix(c.completion) for c in candidates]
        texts = [c.completion for c in candidates]
        scores = self._scorer(texts, begins, separator="")
        return [LogProb(score.log_prob, score.num_tokens) for score in scores]

    def word_surprisals(self, pairs: Sequence[tuple[str, str]]) -> np.ndarray:
        contexts, words = zip(*pairs, strict=True)
        return -np.array([score.log_prob for score in self._scorer(words, contexts)])

    def num_pieces(self, word: str) -> int:
        both, first = (
            len(self._vocabulary.encode(text)[0]) for text in (f"The {word}", "The")
        )
        return max(1, both - first)

    def with_params(self, params: Any) -> "OwnJudge":
        self._scorer.params = params
        return self


class _Objective:
    """The loss of tokens at scored positions, of one stack or an encoder-decoder."""

    def __init__(self, objective: Any):
        self._token_predictor: Callable = objective.token_predictor
        self.constants = objective.constants

    def loss(self, net: Any, batch: dict, key: Any) -> tuple[dict, Any]:
        net = self._token_predictor(net)
        if "encoder_token" in batch:
            encoded = net.encode(input_group(batch, "encoder_"))
            decoder = input_group(batch, "decoder_")
            states = net.states(decoder, encoded=encoded, scored=batch["scored"])
        else:
            states = net.states(batch, scored=batch["scored"])
        return masked_cross_entropy("token", net.readout(states), batch), ()


def check_serves(model: Any, backend: str) -> None:
    """Raises UserError: the backend needs other stacks or another attention."""
    has_encoder = model.needs.stacks == "encoder_decoder"
    pattern = model.needs.pattern
    if backend.startswith("enc_dec"):
        legal = has_encoder
    else:
        one = model.needs.stacks == "one"
        legal = one and pattern in backends.PATTERNS[backend]
    if not legal:
        what = "an encoder and a decoder" if has_encoder else f"attention {pattern}"
        raise UserError(
            f"--backend={backend} does not fit a network with {what} "
            f"({model.needs.stacks} stacks); leave --backend out, or choose {OWN}"
        )


def _pad(
    rows: Sequence[Sequence[int]], width: int, fill: int
) -> tuple[np.ndarray, np.ndarray]:
    """[n, width] int32, and the lengths [n]."""
    length = np.array([len(row) for row in rows], np.int32)
    array = np.full((len(rows), width), fill, np.int32)
    array[np.arange(width) < length[:, None]] = np.concatenate(
        [np.asarray(row, np.int32) for row in rows]
    )
    return array, length
