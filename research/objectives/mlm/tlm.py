"""Cross-lingual language modelling (XLM, Conneau and Lample 2019): TLM, MLM and CLM.

A corpus is parallel or monolingual. A document of a parallel corpus is a text in two
languages, its two sides (`inputs.languages`). Monolingual text is read as a stream.
"""

# B batch, L length, K scored positions, V vocabulary, C corpora of data.mixture

import functools
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import numpy as np

from research import networks, objectives
from research.contract.batch import (
    ArraySpec,
    Batch,
    Example,
    VocabInfo,
    input_specs,
    scored_specs,
)
from research.contract.fields import check_sum, choice, fraction, free_text, number
from research.contract.scores import LIKELIHOOD
from research.data import counter_rng
from research.data.rows import TextSpec
from research.objectives.layout import input_format, languages
from research.objectives.layout.specials import Specials
from research.objectives.losses.cross_entropy import Term, masked_cross_entropy
from research.objectives.noise import cloze, scoring
from research.objectives.noise.masking import (
    RANDOM_TOKENS,
    STAYS,
    choose_independently,
    max_masked,
    ordinary_counts,
    replace_chosen,
)


@dataclass(frozen=True)
class Objective(objectives.Objective):
    """Reads eos, x, eos, eos, y, eos, or L tokens of a monolingual stream.

    `token_type` is the language. Positions restart at 0 with the second side. Tokens of
    both sides are chosen independently, except specials and the first token of a row.
    """

    predict: str = choice("masked", ("masked", "next"))  # masked: TLM, or MLM for text
    # in one language; next: each token from those before it (CLM), with positions that
    # do not restart
    rate: float = number(0.15, above=0, below=1)  # fraction of tokens that is chosen
    sample_alpha: float = number(0.0, least=0)  # a token is chosen with probability ~
    # (its count in the training text) ** -sample_alpha, and unk never, as in XLM's
    # code; XLM's paper: 0.5
    mask_fraction: float = fraction(0.8)  # of the chosen: becomes the mask token
    random_fraction: float = fraction(0.1)  # of the chosen: becomes a random token; the
    # rest stays
    random_tokens: str = choice("ordinary", RANDOM_TOKENS)  # what random tokens are
    # drawn from; all: the whole vocabulary (XLM's code)
    side: str = choice("both", ("both", "one", "first", "second"))  # what is read of a
    # pair; one: a random side
    order: str = choice("given", ("given", "random"))  # of the sides of a pair; random:
    # either order (XLM's command for XNLI)
    languages: str = free_text("0:1")  # token types of the sides of a parallel corpus
    # (0:1), or of a corpus in one language (0): one entry for all corpora, or one per
    # corpus of data.mixture in the order of names, separated by spaces. With
    # data.alpha both kinds of corpora are sampled equally often

    token_terms = ("tlm", "clm")
    shown_answers: ClassVar = {"tlm": STAYS}

    def __post_init__(self) -> None:
        super().__post_init__()
        check_sum(self, "mask_fraction", "random_fraction")
        assert len(self._token_types)  # raises if languages cannot be parsed

    @property
    def pattern(self) -> str:
        return "full" if self.predict == "masked" else "causal"

    @property
    def reads_corpus(self) -> bool:
        return len(self._token_types) > 1

    @property
    def fills_masks(self) -> bool:
        return self.mask_fraction > 0 and self.predict == "masked"

    @property
    def min_length(self) -> int:
        """Four specials and a token for a pair; two tokens for a stream."""
        return 5 if (self._token_types[:, 1] >= 0).any() else 2

    @property
    def _token_types(self) -> np.ndarray:
        return languages.parse_languages(self.languages)

    def check_corpora(self, num: int) -> None:
        languages.check_corpora(self._token_types, num)

    def num_scored(self, length: int) -> int:
        """K: 73 at length 256; with predict next all positions but the first."""
        if self.predict == "next":
            return length - 1
        return max_masked(self.rate, length, independent=True)

    def text_spec(self, length: int) -> TextSpec:
        streams = tuple(np.flatnonzero(self._token_types[:, 1] < 0).tolist())
        if not streams:
            return TextSpec("document", length - 4)
        if len(streams) == len(self._token_types):
            return TextSpec("stream", length)
        return TextSpec("document", length, streams=streams)

    def batch_spec(self, length: int) -> dict[str, ArraySpec]:
        return input_specs(length) | scored_specs(self.num_scored(length))

    def corrupt(
        self, example: Example, key: np.ndarray, vocab: VocabInfo, length: int
    ) -> dict[str, np.ndarray]:
        """Masks tokens of both sides, or scores each token but the first.

        Raises:
          UserError: `sample_alpha` is above 0 but the text has no counts of tokens.
        """
        types = self._types_of_rows(example.corpus)
        is_stream, swapped = types[:, 1] < 0, np.zeros(len(types), bool)
        if self.order == "random":
            swapped = ~is_stream & (counter_rng.uniform(key, "order", 1)[:, 0] < 0.5)
        order = {"is_stream": is_stream, "swapped": swapped}
        text, second_begin = self._text(example, key, vocab, length, **order)
        types = np.where(swapped[:, None], types[:, ::-1], types)
        if self.predict == "next":
            scored = _next_tokens(text, vocab)
            group = input_format.causal_input(text.token, text.length)
        else:
            scored = self._mask(text, key, vocab)
            group = input_format.full_input(text.token, text.length)
            shift = np.where(text.token_type == 1, second_begin[:, None], 0)
            group["position"] -= shift.astype(np.int32)
        language = np.take_along_axis(types, text.token_type, axis=1)
        return group | {"token_type": language * group["segment"]} | scored

    def _mask(
        self, text: input_format.Text, key: np.ndarray, vocab: VocabInfo
    ) -> dict[str, np.ndarray]:
        """Overwrites `text.token`; returns the arrays of the scored positions."""
        candidate = ~vocab.is_special[text.token]
        candidate[:, 0] = False
        rate = self.rate
        if self.sample_alpha:
            candidate &= text.token != vocab.unk_id
            # In XLM's code this is a fraction of all tokens, not of candidates.
            num_candidates = np.maximum(candidate.sum(axis=1), 1)
            rate = self._token_rates(vocab)[text.token]
            rate *= (text.length / num_candidates)[:, None]
        num_scored = self.num_scored(text.token.shape[1])
        chosen = choose_independently(key, candidate, candidate, rate, num_scored)
        return replace_chosen(
            text.token,
            chosen,
            key,
            vocab,
            num_scored=num_scored,
            mask_fraction=self.mask_fraction,
            random_fraction=self.random_fraction,
            random_tokens=self.random_tokens,
        )

    def _token_rates(self, vocab: VocabInfo) -> np.ndarray:
        """[V]: the probability that a token is chosen (XLM, trainer.py, mask_out)."""
        count = ordinary_counts(vocab, "sample_alpha", f"{self.sample_alpha:g}")
        count[vocab.unk_id] = 0
        return token_rates(count.tobytes(), self.sample_alpha, self.rate)

    def _text(
        self,
        example: Example,
        key: np.ndarray,
        vocab: VocabInfo,
        length: int,
        **order: np.ndarray,
    ) -> tuple[input_format.Text, np.ndarray]:
        """The rows, and [B]: the position of the eos before the side that is second.

        Args:
          order: is_stream [B] bool, the monolingual rows; swapped [B] bool, the rows
            whose second side comes first.
        """
        is_stream, swapped = order["is_stream"], order["swapped"]
        begin, size = languages.two_sides(example, length - 4)
        if self.side != "both":
            second = np.full(len(key), self.side == "second")
            if self.side == "one":
                second = counter_rng.uniform(key, "side", 1)[:, 0] < 0.5
            second &= size[:, 1] > 0
            size[second, 0], size[~second, 1] = 0, 0
        size[is_stream] = 0
        begin[swapped], size[swapped] = begin[swapped, ::-1], size[swapped, ::-1]
        prefixes = (vocab.eos_id, vocab.eos_id)
        text = input_format.concatenate_spans(
            example, begin, size, vocab, length, prefixes=prefixes
        )
        width = min(length, example.token.shape[1])
        for ours, raw in ((text.token, example.token), (text.flags, example.flags)):
            ours[is_stream, :width] = raw[is_stream, :width]
        stream_length = np.minimum(example.length, length)
        text = text._replace(length=np.where(is_stream, stream_length, text.length))
        return text, np.where(size[:, 0] > 0, size[:, 0] + 2, 0)

    def _types_of_rows(self, corpus: np.ndarray) -> np.ndarray:
        return languages.types_of_rows(self._token_types, corpus)

    @property
    def takes_mask_rate(self) -> bool:
        return self.predict == "masked"

    @property
    def score_methods(self) -> dict[str, str]:
        if self.predict == "next":
            return {"left_to_right": LIKELIHOOD}
        return cloze.METHODS

    def score_rows(
        self,
        example: Example,
        scored: np.ndarray,
        vocab: VocabInfo,
        length: int,
        method: str,
    ) -> scoring.ScoreRows:
        """Rows of eos, text, eos, in the first language of the row's corpus."""
        if self.predict == "masked":
            rows = cloze.score_rows(example, scored, vocab, length, method)
        else:
            text = input_format.single(example, vocab, length)
            arrays = input_format.causal_input(text.token, text.length)
            arrays |= _next_tokens(text, vocab)
            arrays["weight"] *= scored[:, : length - 1]
            rows = scoring.ScoreRows(np.arange(len(scored)), arrays)
        rows.arrays["token"][:, 0] = vocab.eos_id  # there is no bos
        language = self._types_of_rows(example.corpus)[rows.text, :1]
        rows.arrays["token_type"] = language * rows.arrays["segment"]
        return rows

    def specials(self, vocab: VocabInfo) -> Specials:
        """eos on both sides of each text, in the languages of the first corpus."""
        first, second = self._token_types[0].tolist()
        end = (vocab.eos_id,)
        second = first if second < 0 else second
        return Specials(end, end, first, between=end * 2, second_type=second)

    def needs(self, vocab: VocabInfo) -> networks.Needs:
        return networks.Needs(
            pattern=self.pattern,
            transform=self.predict == "masked",
            token_types=int(self._token_types.max()) + 1,
        )

    def loss(
        self, net: networks.BoundNetwork, batch: Batch, key: jax.Array
    ) -> tuple[dict[str, Term], Any]:
        """Terms: tlm, or clm with predict next; and accuracy (a metric)."""
        readout = net.readout(net.states(batch, scored=batch["scored"]))
        name = "tlm" if self.predict == "masked" else "clm"
        return masked_cross_entropy(name, readout, batch), ()


def _next_tokens(text: input_format.Text, vocab: VocabInfo) -> dict[str, np.ndarray]:
    """scored, target, weight [B, L - 1]; a target is the token after the position."""
    position = np.arange(text.token.shape[1] - 1, dtype=np.int32)
    weight = position + 1 < text.length[:, None]
    return {
        "scored": np.where(weight, position, 0).astype(np.int32),
        "target": np.where(weight, text.token[:, 1:], vocab.pad_id).astype(np.int32),
        "weight": weight.astype(np.float32),
    }


@functools.lru_cache(maxsize=8)
def token_rates(count: bytes, alpha: float, rate: float) -> np.ndarray:
    """[V]: the probability that a token is chosen, from counts of the tokens.

    XLM's code draws a fraction `rate` of a batch's tokens without replacement, with
    weights w = count ** -alpha (trainer.py, mask_out). In a large batch this chooses
    each token with probability 1 - exp(-s w), where s makes the expected fraction of
    chosen tokens `rate` (Efraimidis and Spirakis 2006: the smallest exponential
    variables), so that rows do not depend on each other.

    Args:
      count: the bytes of an int64 array of the V tokens' counts, not all 0.
    """
    counts = np.frombuffer(count, np.int64)
    weight = np.maximum(counts, 1.0) ** -alpha
    fraction_V = counts / counts.sum()
    scale, missing = 0.0, rate
    while missing > 1e-6 * rate:  # Newton's steps from below, since the sum is concave
        scale += missing / (fraction_V @ (weight * np.exp(-scale * weight)))
        missing = rate - fraction_V @ -np.expm1(-scale * weight)
    return -np.expm1(-scale * weight)
