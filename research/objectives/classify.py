"""Classification of documents: a supervised objective, to fine-tune what is pretrained.

encoder  bos text eos, the label read at bos; with `bos` "last": text eos bos (XLNet).
decoder  bos text eos, causal as in pretraining, the label read at eos (GPT).
encdec   bos text eos on both sides, the label read at the decoder's eos (BART).

With `pool` "mean" the label is read off the mean of all tokens' states instead, of an
encdec's encoder alone; no state has to be trained first to speak for the whole.
"""

# B batch, L length, N labels

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from research import models
from research.batch import (
    ArraySpec,
    Example,
    TextSpec,
    VocabInfo,
    input_group,
    input_specs,
)
from research.errors import UserError
from research.objectives.inputs import input_format, sentence_pairs
from research.objectives.losses.cross_entropy import Term


@dataclass(frozen=True)
class Objective:
    """TextSpec the first L - 2 tokens of a document; `scored` is where its label is read.

    Unlabelled documents weigh nothing.
    """

    architecture: str = "encoder"  # encoder | decoder | encdec
    bos: str = "first"  # first | last: where an encoder's class token stands
    pool: str = "token"  # token | mean: of which states the label is read

    def __post_init__(self):
        if self.architecture not in ("encoder", "decoder", "encdec"):
            raise ValueError(
                f"architecture is encoder, decoder or encdec, not {self.architecture!r}"
            )
        if self.bos not in ("first", "last"):
            raise ValueError(f"bos is first or last, not {self.bos!r}")
        if self.bos == "last" and self.architecture != "encoder":
            raise ValueError("bos is last with architecture encoder alone")
        if self.pool not in ("token", "mean"):
            raise ValueError(f"pool is token or mean, not {self.pool!r}")

    family = "supervised"
    supports_accumulation = True

    @property
    def pattern(self) -> str:
        return "causal" if self.architecture == "decoder" else "full"

    def text_spec(self, length: int) -> TextSpec:
        return TextSpec("document", length - 2)

    def batch_spec(self, length: int) -> dict[str, ArraySpec]:
        arrays = {"label": ArraySpec(()), "label_weight": ArraySpec((), np.float32)}
        if self.pool == "token":
            arrays["scored"] = ArraySpec((1,))
        for prefix in self._sides():
            arrays |= input_specs(length, prefix)
        return arrays

    def _sides(self) -> tuple[str, ...]:
        """The prefixes of the groups that are read."""
        if self.architecture != "encdec":
            return ("",)
        return ("encoder_", "decoder_") if self.pool == "token" else ("encoder_",)

    def corrupt(
        self, example: Example, key: np.ndarray, vocab: VocabInfo, length: int
    ) -> dict[str, np.ndarray]:
        """Hides the label.

        Raises:
          UserError: the documents have no labels.
        """
        _check(vocab)
        token, num_tokens = input_format.enclose(example, vocab, length, bos=self.bos)
        pattern = {"": self.pattern, "encoder_": "full", "decoder_": "causal"}
        batch = {}
        for side in self._sides():
            batch |= getattr(input_format, pattern[side])(token, num_tokens, side)
        if self.pool == "token":
            begins = self.architecture == "encoder" and self.bos == "first"
            read = num_tokens * 0 if begins else np.maximum(num_tokens - 1, 0)
            batch["scored"] = read[:, None].astype(np.int32)
        known = (example.label >= 0) & (num_tokens > 0)
        return batch | {
            "label": np.where(known, example.label, 0).astype(np.int32),
            "label_weight": known.astype(np.float32),
        }

    def network(self, options: Any, vocab: VocabInfo) -> Any:
        """Raises UserError: the documents have no labels."""
        _check(vocab)
        heads = {"label": len(vocab.labels)}
        if self.architecture == "encdec":
            return models.EncoderDecoder(options, size=vocab.size, heads=heads)
        return models.Transformer(
            options, size=vocab.size, pattern=self.pattern, heads=heads
        )

    def _state(self, net: Any, batch: dict) -> jax.Array:
        """[B, D]: the state that the label is read of."""
        scored = batch.get("scored")
        if self.architecture != "encdec":
            states = net.states(batch, scored=scored)
            return _mean(states, batch["segment"]) if scored is None else states[:, 0]
        memory = net.encode(input_group(batch, "encoder_"))
        if scored is None:
            return _mean(memory.states, memory.segment)
        return net.states(input_group(batch, "decoder_"), memory, scored=scored)[:, 0]

    def loss(self, net: Any, batch: dict, key: Any) -> tuple[dict[str, Term], Any]:
        """Terms: label, and accuracy (not differentiated)."""
        logits_BN = net.head("label", self._state(net, batch))
        found = sentence_pairs.score("label", logits_BN, batch)
        return {"label": found["label"], "accuracy": found["label_accuracy"]}, ()


def _mean(states_BLD: jax.Array, segment_BL: jax.Array) -> jax.Array:
    """[B, D]: the mean of the states that are no padding."""
    here_BL = (segment_BL > 0).astype(states_BLD.dtype)
    total_BD = jnp.einsum("bld,bl->bd", states_BLD, here_BL)
    return total_BD / jnp.maximum(here_BL.sum(axis=1), 1)[:, None]


def _check(vocab: VocabInfo) -> None:
    if not vocab.labels:
        raise UserError(
            "objective classify needs labelled documents, which data.corpus does not "
            "have; docstrings does, and a .jsonl whose lines have a label"
        )
