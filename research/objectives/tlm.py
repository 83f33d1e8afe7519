"""Translation language modelling: hidden tokens of two languages (XLM, Conneau 2019).

A document is a text in two languages: its first paragraph, and the rest of it.
"""

# B batch, L length, K scored positions

from dataclasses import dataclass
from typing import Any

import numpy as np

from research import models
from research.batch import (
    PARAGRAPH,
    ArraySpec,
    Example,
    TextSpec,
    VocabInfo,
    input_specs,
    scored_specs,
)
from research.data import counter_rng
from research.errors import UserError
from research.fields import check, check_sum, choice, fraction, free_text, number
from research.objectives.corruption.masking import (
    TOKEN_SETS,
    mask_random_tokens,
    max_masked,
)
from research.objectives.inputs import input_format
from research.objectives.losses.cross_entropy import Term, masked_cross_entropy


@dataclass(frozen=True)
class Objective:
    """Reads eos, x, eos, eos, y, eos; positions restart at 0 with the second side.

    `token_type` is the language. Tokens of both sides are chosen, specials never. Of a
    text in one language one side is read: eos, x, eos.
    """

    rate: float = number(0.15, above=0, below=1)  # fraction of a row's tokens, specials
    # included, that is chosen
    sample_alpha: float = number(0.0, least=0)  # a token is chosen in proportion to
    # (its count in the training text) ** -sample_alpha; XLM's paper: 0.5
    mask_fraction: float = fraction(0.8)  # of the chosen: becomes the mask token
    random_fraction: float = fraction(0.1)  # of the chosen: becomes a random token; the
    # rest stays
    random_tokens: str = choice("ordinary", TOKEN_SETS)  # what random tokens are
    # drawn from; all: the whole vocabulary (XLM's code)
    side: str = choice("both", ("both", "one", "first", "second"))  # what is read of a
    # pair; one: a random side (monolingual, to alternate with both in a mix)
    languages: str = free_text("0:1")  # token types of first and second side: one pair
    # for all
    # corpora, or one for each of data.mixture in order of their names, between spaces

    family = "MLM"
    pattern = "full"
    supports_accumulation = True
    min_length = 5  # four specials and a token

    def __post_init__(self):
        check(self)
        check_sum(self, "mask_fraction", "random_fraction")
        assert len(self._token_types)  # raises if languages cannot be parsed

    @property
    def _token_types(self) -> np.ndarray:
        """[corpora, 2] int32. Raises ValueError: languages are not pairs of numbers."""
        try:
            pairs = [pair.split(":") for pair in self.languages.split()]
            types = np.array([[int(n) for n in pair] for pair in pairs], np.int32)
            valid = types.ndim == 2 and types.shape[1] == 2 and types.min() >= 0
        except ValueError:
            valid = False
        if not valid:
            raise ValueError(
                "languages are pairs of token types such as 0:1, with spaces between "
                f"them, not {self.languages!r}"
            )
        return types

    def num_scored(self, length: int) -> int:
        """K: 39 at length 256."""
        return max_masked(self.rate, length)

    def text_spec(self, length: int) -> TextSpec:
        return TextSpec("document", length - 4)

    def batch_spec(self, length: int) -> dict[str, ArraySpec]:
        return input_specs(length) | scored_specs(self.num_scored(length))

    def corrupt(
        self, example: Example, key: np.ndarray, vocab: VocabInfo, length: int
    ) -> dict[str, np.ndarray]:
        """Masks round(rate * tokens) of a row's tokens, on either side.

        Raises:
          UserError: `languages` has fewer pairs than there are corpora, or
            `sample_alpha` is above 0 but the text has no counts of tokens.
        """
        text, second_begin = self._text(example, key, vocab, length)
        scored = mask_random_tokens(
            text.token,
            ~vocab.is_special[text.token],
            text.length,
            key,
            vocab,
            rate=self.rate,
            max_count=self.num_scored(length),
            mask_fraction=self.mask_fraction,
            random_fraction=self.random_fraction,
            random_tokens=self.random_tokens,
            token_weight=self._token_weight(vocab),
        )
        group = input_format.full_input(text.token, text.length)
        shift = np.where(text.token_type == 1, second_begin[:, None], 0)
        group["position"] -= shift.astype(np.int32)
        group["token_type"] = self._languages(example.corpus, text, group["segment"])
        return group | scored

    def _token_weight(self, vocab: VocabInfo) -> np.ndarray | None:
        """[V]: weights of the ids among what is chosen (XLM, trainer.py)."""
        if not self.sample_alpha:
            return None
        if vocab.token_count is None:
            raise UserError(
                f"objective.sample_alpha is {self.sample_alpha:g}, but data.task does "
                "not say how often tokens occur; set it to 0"
            )
        return np.maximum(vocab.token_count, 1.0) ** -self.sample_alpha

    def _text(
        self, example: Example, key: np.ndarray, vocab: VocabInfo, length: int
    ) -> tuple[input_format.Text, np.ndarray]:
        """The rows, and [B]: the position of the eos before the second side."""
        num_raw = np.minimum(example.length, length - 4).astype(np.int64)
        starts = (example.flags & PARAGRAPH) > 0
        starts[:, :1] = False
        starts &= np.arange(starts.shape[1]) < num_raw[:, None]
        cut = np.where(starts.any(axis=1), starts.argmax(axis=1), num_raw)
        size = np.stack([cut, num_raw - cut], axis=1)
        if self.side != "both":
            second = np.full(len(key), self.side == "second")
            if self.side == "one":
                second = counter_rng.uniform(key, "side", 1)[:, 0] < 0.5
            second &= size[:, 1] > 0
            size[second, 0], size[~second, 1] = 0, 0
        begin = np.stack([0 * cut, cut], axis=1)
        prefixes = (vocab.eos_id, vocab.eos_id)
        text = input_format.concatenate_spans(
            example, begin, size, vocab, length, prefixes=prefixes
        )
        return text, np.where(size[:, 0] > 0, size[:, 0] + 2, 0)

    def _languages(
        self, corpus: np.ndarray, text: input_format.Text, segment: np.ndarray
    ) -> np.ndarray:
        """[B, L] int32: the language of each position, 0 at padding."""
        types = self._token_types
        if len(types) > 1 and corpus.max(initial=0) >= len(types):
            raise UserError(
                f"objective.languages has {len(types)} pairs for at least "
                f"{corpus.max() + 1} corpora of data.mixture"
            )
        own = types[np.where(len(types) > 1, corpus, 0)]
        return np.take_along_axis(own, text.token_type, axis=1) * segment

    def network(self, options: Any, vocab: VocabInfo) -> Any:
        """Raises UserError: model.token_types is less than the languages need."""
        input_format.check_token_types(options, int(self._token_types.max()) + 1)
        return models.Transformer(
            options, size=vocab.size, pattern=self.pattern, transform=True
        )

    def loss(self, net: Any, batch: dict, key: Any) -> tuple[dict[str, Term], Any]:
        """Terms: tlm, and accuracy (a metric)."""
        readout = net.readout(net.states(batch, scored=batch["scored"]))
        return masked_cross_entropy("tlm", readout, batch), ()
