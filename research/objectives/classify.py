"""Classification of documents: a supervised objective to fine-tune pretrained networks.

encoder  bos text eos, classified at bos; with `bos` "last": text eos bos (XLNet).
decoder  bos text eos, causal as in pretraining, classified at eos (GPT).
encdec   bos text eos on both sides, classified at the decoder's eos (BART).

With `pool` "mean" the mean of all tokens' states is classified instead (of an encdec,
of the encoder alone), which needs no token whose state stands for the whole text.
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
from research.fields import check, choice
from research.objectives.inputs import input_format, sentence_pairs
from research.objectives.losses.cross_entropy import Term


@dataclass(frozen=True)
class Objective:
    """Reads the first L - 2 tokens of a document; unlabelled ones have weight 0."""

    architecture: str = choice("encoder", ("encoder", "decoder", "encdec"))
    bos: str = choice("first", ("first", "last"))  # where an encoder's bos is
    pool: str = choice("token", ("token", "mean"))  # the state that is classified
    head: str = choice("tanh", ("tanh", "linear"))  # tanh: a dense layer with tanh,
    # which is the pooler that pretraining may have trained, and the last layer (BERT,
    # RoBERTa, ALBERT, XLNet, BART); linear: the last layer alone (GPT, ELECTRA).
    # Dropout before the last layer: model.head_dropout

    family = "supervised"
    supports_accumulation = True
    min_length = 3  # bos, a token, eos

    def __post_init__(self):
        check(self)
        if self.bos == "last" and self.architecture != "encoder":
            raise ValueError("bos is last with architecture encoder alone")

    @property
    def pattern(self) -> str:
        return "causal" if self.architecture == "decoder" else "full"

    def text_spec(self, length: int) -> TextSpec:
        return TextSpec("document", length - 2, label="class")

    def batch_spec(self, length: int) -> dict[str, ArraySpec]:
        specs = sentence_pairs.label_specs()
        if self.pool == "token":
            specs["scored"] = ArraySpec((1,))
        for prefix in self._prefixes():
            specs |= input_specs(length, prefix)
        return specs

    def _prefixes(self) -> tuple[str, ...]:
        """Prefixes of the network's inputs."""
        if self.architecture != "encdec":
            return ("",)
        return ("encoder_", "decoder_") if self.pool == "token" else ("encoder_",)

    def corrupt(
        self, example: Example, key: np.ndarray, vocab: VocabInfo, length: int
    ) -> dict[str, np.ndarray]:
        """Lays out the text; the label is what is hidden.

        Raises:
          UserError: the documents have fewer than two labels.
        """
        _check_labels(vocab)
        token, num_tokens = input_format.add_special_tokens(
            example, vocab, length, bos=self.bos
        )
        batch = {}
        for prefix in self._prefixes():
            causal = prefix == "decoder_" or self.pattern == "causal"
            make = input_format.causal_input if causal else input_format.full_input
            batch |= make(token, num_tokens, prefix)
        if self.pool == "token":
            at_first = self.architecture == "encoder" and self.bos == "first"
            scored = num_tokens * 0 if at_first else np.maximum(num_tokens - 1, 0)
            batch["scored"] = scored[:, None].astype(np.int32)
        labelled = (example.label >= 0) & (num_tokens > 0)
        return batch | {
            "label": np.where(labelled, example.label, 0).astype(np.int32),
            "label_weight": labelled.astype(np.float32),
        }

    def network(self, options: Any, vocab: VocabInfo) -> Any:
        """Raises UserError: the documents have fewer than two labels."""
        _check_labels(vocab)
        hidden = "none" if self.head == "linear" else "tanh"
        heads = {"label": models.HeadSpec(len(vocab.labels), hidden, dropout=True)}
        if self.architecture == "encdec":
            return models.EncoderDecoder(options, size=vocab.size, heads=heads)
        return models.Transformer(
            options, size=vocab.size, pattern=self.pattern, heads=heads
        )

    def _state(self, net: Any, batch: dict) -> jax.Array:
        """[B, D]: the state that is classified."""
        scored = batch.get("scored")
        if self.architecture != "encdec":
            states = net.states(batch, scored=scored)
            return _mean(states, batch["segment"]) if scored is None else states[:, 0]
        encoded = net.encode(input_group(batch, "encoder_"))
        if scored is None:
            return _mean(encoded.states, encoded.segment)
        return net.states(input_group(batch, "decoder_"), encoded, scored=scored)[:, 0]

    def loss(self, net: Any, batch: dict, key: Any) -> tuple[dict[str, Term], Any]:
        """Terms: label, and accuracy (a metric)."""
        logits_BN = net.head("label", self._state(net, batch))
        terms = sentence_pairs.label_terms("label", logits_BN, batch)
        return {"label": terms["label"], "accuracy": terms["label_accuracy"]}, ()


def _mean(states_BLD: jax.Array, segment_BL: jax.Array) -> jax.Array:
    """[B, D]: the mean of the states of non-padding positions."""
    here_BL = (segment_BL > 0).astype(states_BLD.dtype)
    total_BD = jnp.einsum("bld,bl->bd", states_BLD, here_BL)
    return total_BD / jnp.maximum(here_BL.sum(axis=1), 1)[:, None]


def _check_labels(vocab: VocabInfo) -> None:
    """Raises UserError: the documents have fewer than two labels."""
    if len(vocab.labels) < 2:
        found = f"the label {vocab.labels[0]!r} alone" if vocab.labels else "no labels"
        raise UserError(
            "objective classify needs documents of two labels or more, but data.corpus "
            f"has {found}; docstrings has, and so has a .jsonl whose lines have a label"
        )
