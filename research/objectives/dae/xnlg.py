"""Cross-lingual generation (XNLG, Chi et al. 2020): a decoder for a trained encoder.

Text in one language is restored from noise (denoising, DAE), parallel text is
translated (cross-lingual, XAE). The order of noises, and what each does, is the
released code's (CZWin32768/XNLG at a4e15b5, xnlg/src/trainer.py, add_noise).
"""

# B batch, L length, W raw tokens of a row

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from research import networks, objectives
from research.contract.batch import ArraySpec, Batch, Example, VocabInfo, input_group
from research.contract.fields import choice, free_text, number
from research.data import counter_rng
from research.data.rows import TextSpec
from research.objectives.layout import languages, seq2seq
from research.objectives.layout.prompt import Prompt, in_languages
from research.objectives.layout.specials import Specials
from research.objectives.losses.cross_entropy import Term, cross_entropy


@dataclass(frozen=True)
class Objective(objectives.Objective):
    """The encoder reads eos, x, eos; the decoder reads eos, y and writes y, eos.

    y is the other side of parallel text or, for text in one language, x before its
    noise. A text, or a side of parallel text, has its first L - 2 tokens. A document is
    not scored if it has only one side, or if its second side is beyond the 4 (L - 2)
    tokens that are read. `token_type` is the language, on both sides.

    With model.shared_embeddings=False and
    optimizer.frozen=encoder,encoder_embeddings,token only the decoder learns, from an
    encoder with dropout, as in the second stage of the released code.
    """

    languages: str = free_text("0:1")  # token types of the sides of a parallel corpus
    # (0:1), or of a corpus in one language (0): one entry for all corpora, or one per
    # corpus of data.mixture in the order of names, separated by spaces
    order: str = choice("random", ("random", "given"))  # of the sides of a pair;
    # random: either is translated to the other
    shuffle_distance: float = number(3.0, least=0)  # tokens are sorted by position plus
    # a uniform number below this; 0: none are moved
    drop_rate: float = number(0.1, least=0, below=1)  # fraction of tokens that are
    # dropped; at least one stays
    blank_rate: float = number(0.1, least=0, below=1)  # of the rest: fraction of masks
    denoising: float = number(
        0.5, least=0
    )  # factor of the term of text in one language

    pattern = "full"
    min_length = 3  # eos, a token, eos
    token_terms = ("xae", "dae")
    shown_answers: ClassVar = {"dae": "the target is the text, hidden or not"}

    def __post_init__(self) -> None:
        super().__post_init__()
        assert len(self._types)  # raises if languages cannot be parsed

    @property
    def reads_corpus(self) -> bool:
        return len(self._types) > 1

    @property
    def _types(self) -> np.ndarray:
        return languages.parse_languages(self.languages)

    def check_corpora(self, num: int) -> None:
        languages.check_corpora(self._types, num)

    def text_spec(self, length: int) -> TextSpec:
        """The text of a row; with parallel corpora both sides of a pair.

        What is left out of a long first side is also read.
        """
        has_pairs = (self._types[:, 1] >= 0).any()
        return TextSpec("document", (4 if has_pairs else 1) * (length - 2))

    def batch_spec(self, length: int) -> dict[str, ArraySpec]:
        return seq2seq.batch_spec(length, length - 1) | {"is_noised": ArraySpec(())}

    def corrupt(
        self, example: Example, key: np.ndarray, vocab: VocabInfo, length: int
    ) -> dict[str, np.ndarray]:
        """Draws the order of a pair, or noise."""
        room, types = length - 2, languages.types_of_rows(self._types, example.corpus)
        noised, most = types[:, 1] < 0, self.text_spec(length).length
        begin, size = languages.two_sides(example, most)
        begin[noised], size[noised] = 0, example.length[noised, None]
        is_cut = ~noised & (example.length >= most) & (size[:, 1] < room)
        size = np.minimum(size, room)
        has_text, has_both = size[:, 0] > 0, (size > 0).all(axis=1) & ~is_cut
        types = np.where(noised[:, None], types[:, :1], types)
        if self.order == "random":
            swapped = has_both & (counter_rng.uniform(key, "order", 1)[:, 0] < 0.5)
            begin, size, types = (
                np.where(swapped[:, None], each[:, ::-1], each)
                for each in (begin, size, types)
            )
        sides = [_side(example, begin[:, n], size[:, n], room) for n in range(2)]
        token, kept = self._add_noise(*sides[0], noised, key, vocab)
        encoder = seq2seq.pack(token, kept, has_text, vocab, length, vocab.eos_id)
        target = seq2seq.pack(*sides[1], has_text, vocab, length - 1)
        batch = seq2seq.make_batch(encoder, target, vocab, vocab.eos_id)
        batch["weight"] *= has_both[:, None]
        for side, prefix in enumerate(("encoder_", "decoder_")):
            language = types[:, side, None] * batch[prefix + "segment"]
            batch[prefix + "token_type"] = language.astype(np.int32)
        return batch | {"is_noised": noised.astype(np.int32)}

    def _add_noise(
        self,
        token: np.ndarray,
        valid: np.ndarray,
        noised: np.ndarray,
        key: np.ndarray,
        vocab: VocabInfo,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Tokens [B, W] and which are read; only `noised` [B] rows have noise."""
        width = token.shape[1]
        position, some = np.arange(width), noised[:, None]
        kept = valid
        if self.shuffle_distance:
            moved = self.shuffle_distance * counter_rng.uniform(key, "shuffle", width)
            order = np.where(valid, position + moved * some, 2 * width + position)
            order = order.argsort(axis=1, kind="stable")
            token = np.take_along_axis(token, order, axis=1)
        if self.drop_rate:
            dropped = counter_rng.uniform(key, "drop", width) < self.drop_rate
            kept = valid & ~(dropped & some)
            size = valid.sum(axis=1)
            one = (counter_rng.uniform(key, "keep", 1)[:, 0] * size).astype(np.int64)
            lost = (size > 0) & ~kept.any(axis=1)
            kept |= lost[:, None] & (position == one[:, None])
        if self.blank_rate:
            blank = counter_rng.uniform(key, "blank", width) < self.blank_rate
            token = np.where(blank & some & valid, vocab.mask_id, token)
        return token.astype(np.int32), kept

    def prompt(self, texts: Sequence[Sequence[int]], vocab: VocabInfo) -> Prompt:
        """The encoder reads eos, a text, eos in the first language.

        The decoder writes the second, or only, language of the first corpus.
        """
        rows = [[vocab.eos_id, *text, vocab.eos_id] for text in texts]
        made = seq2seq.prompt(rows, [vocab.eos_id], vocab)
        return in_languages(made, *languages.parse_pair(self.languages.split()[0]))

    def specials(self, vocab: VocabInfo) -> Specials:
        """eos on both sides, in the first language of the first corpus."""
        language = int(self._types[0, 0])
        return Specials((vocab.eos_id,), (vocab.eos_id,), language)

    def needs(self, vocab: VocabInfo) -> networks.Needs:
        return networks.Needs(
            pattern=self.pattern,
            stacks="encoder_decoder",
            token_types=int(self._types.max()) + 1,
            languages=True,
        )

    def loss(
        self, net: networks.BoundNetwork, batch: Batch, key: jax.Array
    ) -> tuple[dict[str, Term], Any]:
        """Terms: xae for pairs and dae for text in one language; and accuracy.

        `languages` decide which terms exist; accuracy is a metric.
        """
        encoded = seq2seq.encode(net, batch, "encoder_")
        readout = net.readout(
            net.states(input_group(batch, "decoder_"), encoded=encoded)
        )
        noised, single = batch["is_noised"][:, None] > 0, self._types[:, 1] < 0
        kinds = {"xae": (~noised, 1.0)} if not single.all() else {}
        kinds |= {"dae": (noised, self.denoising)} if single.any() else {}
        terms: dict[str, Term] = {}
        right = jnp.zeros((), jnp.float32)
        for name, (rows, coef) in kinds.items():
            weight = jnp.where(rows, batch["weight"], 0.0)
            term, correct = cross_entropy(readout, batch["target"], weight, skip=True)
            terms[name], right = term._replace(coef=coef), right + correct
        scored = jnp.sum(batch["weight"])
        return terms | {"accuracy": Term(right, scored, 0.0)}, ()


def _side(
    example: Example, begin: np.ndarray, size: np.ndarray, width: int
) -> tuple[np.ndarray, np.ndarray]:
    """Tokens [B, width] of one side, and which of them are text."""
    position = np.arange(width)
    valid = position < size[:, None]
    at = np.where(valid, begin[:, None] + position, 0)
    return np.take_along_axis(example.token, at, axis=1), valid
