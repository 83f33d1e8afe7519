"""InfoNCE between a sentence and its n-gram (InfoWord, Kong et al. 2020, section 4).

One n-gram of each text is masked and encoded separately. The class token's state of the
remaining text scores this n-gram against those of the batch's other documents. Single
tokens are masked and predicted as well, as in BERT.
"""

# B batch, L length, K masked positions

from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from research import networks, objectives
from research.contract.batch import (
    ArraySpec,
    Batch,
    Example,
    VocabInfo,
    input_group,
    input_specs,
    scored_specs,
)
from research.contract.fields import check_sum, fraction, number
from research.data import counter_rng
from research.data.rows import TextSpec
from research.objectives.layout import input_format
from research.objectives.losses import contrastive
from research.objectives.losses.cross_entropy import (
    Term,
    masked_cross_entropy,
    with_accuracy,
)
from research.objectives.mlm import mlm
from research.objectives.noise import cloze, scoring
from research.objectives.noise.masking import STAYS, mask_random_tokens, max_masked


@dataclass(frozen=True)
class Objective(objectives.Objective):
    """Reads bos, whole sentences of a document, eos; and bos, n-gram, eos.

    The score of a pair is the dot product of the states of their class tokens. A text
    of one token has no n-gram.
    """

    max_ngram: int = number(5, least=1)  # tokens; all sizes from 1 are equally likely
    coef: float = number(1.0, least=0)  # weight of the loss of n-grams; that of masked
    # tokens has 1
    rate: float = number(0.15, above=0, below=1)  # fraction of a row's tokens, specials
    # included, that is chosen
    mask_fraction: float = fraction(0.8)  # of the chosen: becomes the mask token
    random_fraction: float = fraction(0.1)  # of the chosen: becomes a random ordinary
    # token; the rest stays
    negatives: int = number(0, least=0)  # masked tokens are scored against this many
    # targets drawn from the batch; 0: against the whole vocabulary

    pattern = "full"
    supports_accumulation = False
    token_terms = ("mlm",)
    scores_every_token = True
    takes_mask_rate = True
    score_methods: ClassVar = cloze.METHODS
    shown_answers: ClassVar = {
        "mlm": STAYS,
        "infonce": "an n-gram has as many tokens as its text has masks in a row",
    }
    min_length = 4  # bos, an n-gram and a token next to it, eos

    def __post_init__(self) -> None:
        super().__post_init__()
        check_sum(self, "mask_fraction", "random_fraction")

    @property
    def fills_masks(self) -> bool:
        return self.mask_fraction > 0

    def num_scored(self, length: int) -> int:
        """K: 20 at length 128, 77 at 512."""
        return max_masked(self.rate, length)

    def text_spec(self, length: int) -> TextSpec:
        return TextSpec("passage", length - 2)

    def batch_spec(self, length: int) -> dict[str, ArraySpec]:
        return (
            input_specs(length)
            | input_specs(self.max_ngram + 2, "ngram_")
            | scored_specs(self.num_scored(length))
            | {"document": ArraySpec(()), "ngram_weight": ArraySpec((), np.float32)}
        )

    def corrupt(
        self, example: Example, key: np.ndarray, vocab: VocabInfo, length: int
    ) -> dict[str, np.ndarray]:
        """Masks an n-gram, and tokens outside it."""
        token, num_tokens = input_format.add_special_tokens(example, vocab, length)
        free = ~vocab.is_special[token]
        candidate = free & (num_tokens > 3)[:, None]
        begin, size = choose_ngram(key, candidate, self.max_ngram)
        position = np.arange(length)
        inside = (position >= begin[:, None]) & (position < (begin + size)[:, None])
        ngram = np.full((len(key), self.max_ngram + 2), vocab.pad_id, np.int32)
        ngram[:, 0] = vocab.bos_id
        column = np.arange(self.max_ngram + 2)
        ngram[(column > 0) & (column <= size[:, None])] = token[inside]
        ngram[np.arange(len(key)), size + 1] = vocab.eos_id
        ngram[size == 0] = vocab.pad_id
        token[inside] = vocab.mask_id

        scored = mask_random_tokens(
            token,
            free & ~inside,
            num_tokens,
            key,
            vocab,
            rate=self.rate,
            max_count=self.num_scored(length),
            mask_fraction=self.mask_fraction,
            random_fraction=self.random_fraction,
        )
        ngram_length = np.where(size > 0, size + 2, 0)
        document = example.document & np.iinfo(np.int32).max
        return (
            input_format.full_input(token, num_tokens)
            | scored
            | input_format.full_input(ngram, ngram_length, "ngram_")
            | {
                "document": document.astype(np.int32),
                "ngram_weight": (size > 0).astype(np.float32),
            }
        )

    def score_rows(
        self,
        example: Example,
        scored: np.ndarray,
        vocab: VocabInfo,
        length: int,
        method: str,
    ) -> scoring.ScoreRows:
        """See `cloze.score_rows`.

        Raises:
          UserError: masked tokens have sampled negatives, which give no probability.
        """
        if self.negatives:
            scoring.refuse(f"objective infoword with negatives {self.negatives}")
        return cloze.score_rows(example, scored, vocab, length, method)

    def for_scoring(self) -> mlm.Objective:
        """`mlm`, which has the same network and the same loss of masked tokens."""
        return mlm.Objective()

    def needs(self, vocab: VocabInfo) -> networks.Needs:
        return networks.Needs(pattern=self.pattern, transform=True)

    def loss(
        self, net: networks.BoundNetwork, batch: Batch, key: jax.Array
    ) -> tuple[dict[str, Term], Any]:
        """Terms: mlm and infonce; their accuracies (metrics)."""
        scored = batch["scored"]
        class_token = jnp.zeros_like(scored[:, :1])
        positions = jnp.concatenate([scored, class_token], axis=1)
        states = net.states(batch, scored=positions)
        terms = self._token_terms(net.readout(states[:, :-1]), batch, key)
        ngram = net.states(input_group(batch, "ngram_"), scored=class_token)
        document, weight = batch["document"], batch["ngram_weight"]
        term, correct = contrastive.info_nce(
            states[:, -1], ngram[:, 0], document, weight
        )
        return terms | with_accuracy("infonce", term, correct, coef=self.coef), ()

    def _token_terms(
        self, readout: Any, batch: Batch, key: jax.Array
    ) -> dict[str, Term]:
        """Terms of the masked tokens."""
        if not self.negatives:
            return masked_cross_entropy("mlm", readout, batch)
        target, weight = batch["target"], batch["weight"]
        negative = contrastive.sample_negatives(key, target, weight, self.negatives)
        term, correct = contrastive.sampled_cross_entropy(
            readout, target, weight, negative
        )
        return {"mlm": term, "accuracy": Term(correct, term.weight, 0.0)}


def choose_ngram(
    key: np.ndarray, candidate: np.ndarray, max_ngram: int
) -> tuple[np.ndarray, np.ndarray]:
    """The begin and size [B] of one n-gram of each row; size 0: no candidates.

    The size is uniform in 1..`max_ngram`, or in 1..n if the longest run of candidates
    [B, L] has n < max_ngram; the position is uniform among those where it fits.
    """
    length = candidate.shape[1]
    stop = np.where(candidate, length, np.arange(length))[:, ::-1]
    ahead = np.minimum.accumulate(stop, axis=1)[:, ::-1] - np.arange(length)
    draw = counter_rng.uniform(key, "ngram", 1)[:, 0]
    max_size = np.minimum(ahead.max(axis=1), max_ngram)
    size = np.where(max_size > 0, 1 + (draw * max_size).astype(np.int64), 0)
    fits = ahead >= np.maximum(size, 1)[:, None]
    begin = counter_rng.choose_subset(
        key, "ngram place", fits, (size > 0).astype(np.int64)
    )
    return begin.argmax(axis=1), size
