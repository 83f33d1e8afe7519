"""Classification of documents: a supervised objective, to fine-tune what is pretrained.

encoder  bos text eos, the label read at bos; with `bos` "last": text eos bos (XLNet).
decoder  bos text eos, causal as in pretraining, the label read at eos (GPT).
encdec   bos text eos on both sides, the label read at the decoder's eos (BART).
"""

# B batch, L length, N labels

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from research import models
from research.batch import Example, Reads, Spec, Symbols, group_specs, take
from research.errors import UserError
from research.objectives import layout
from research.objectives.losses import Term


@dataclass(frozen=True)
class Objective:
    """Reads the first L - 2 tokens of a document; `scored` is where its label is read.

    Unlabelled documents weigh nothing.
    """

    architecture: str = "encoder"  # encoder | decoder | encdec
    bos: str = "first"  # first | last: where an encoder's class token stands

    def __post_init__(self):
        if self.architecture not in ("encoder", "decoder", "encdec"):
            raise ValueError(
                f"architecture is encoder, decoder or encdec, not {self.architecture!r}"
            )
        if self.bos not in ("first", "last"):
            raise ValueError(f"bos is first or last, not {self.bos!r}")
        if self.bos == "last" and self.architecture != "encoder":
            raise ValueError("bos is last with architecture encoder alone")

    splits = True

    @property
    def pattern(self) -> str:
        return "causal" if self.architecture == "decoder" else "full"

    def reads(self, length: int) -> Reads:
        return Reads("document", length - 2)

    def arrays(self, length: int) -> dict[str, Spec]:
        prefixes = ("encoder_", "decoder_") if self.architecture == "encdec" else ("",)
        answer = {"scored": Spec((1,)), "label": Spec(())}
        answer["label_weight"] = Spec((), np.float32)
        for prefix in prefixes:
            answer = group_specs(length, prefix) | answer
        return answer

    def corrupt(
        self, example: Example, key: np.ndarray, symbols: Symbols, length: int
    ) -> dict[str, np.ndarray]:
        """Hides the label.

        Raises:
          UserError: the documents have no labels.
        """
        _check(symbols)
        token, num_tokens = layout.enclose(example, symbols, length, bos=self.bos)
        if self.architecture == "encdec":
            group = layout.full(token, num_tokens, "encoder_")
            group |= layout.causal(token, num_tokens, "decoder_")
        else:
            group = getattr(layout, self.pattern)(token, num_tokens)
        read = np.maximum(num_tokens - 1, 0)
        if self.architecture == "encoder" and self.bos == "first":
            read = np.zeros_like(read)
        known = (example.label >= 0) & (num_tokens > 0)
        return group | {
            "scored": read[:, None].astype(np.int32),
            "label": np.where(known, example.label, 0).astype(np.int32),
            "label_weight": known.astype(np.float32),
        }

    def network(self, options: Any, symbols: Symbols) -> Any:
        """Raises UserError: the documents have no labels."""
        _check(symbols)
        heads = {"label": len(symbols.labels)}
        if self.architecture == "encdec":
            return models.EncoderDecoder(options, size=symbols.size, heads=heads)
        return models.Transformer(
            options, size=symbols.size, pattern=self.pattern, heads=heads
        )

    def loss(self, net: Any, batch: dict, key: Any) -> tuple[dict[str, Term], Any]:
        """Terms: label, and accuracy (not differentiated)."""
        if self.architecture == "encdec":
            memory = net.encode(take(batch, "encoder_"))
            group = take(batch, "decoder_")
            states = net.states(group, memory, scored=batch["scored"])
        else:
            states = net.states(batch, scored=batch["scored"])
        logits_BN = net.head("label", states)[:, 0]
        label, weight = batch["label"], batch["label_weight"]
        log_p = jax.nn.log_softmax(logits_BN)
        loss = -jnp.take_along_axis(log_p, label[:, None], axis=1)[:, 0]
        right = weight * (jnp.argmax(logits_BN, axis=1) == label)
        total = jnp.sum(weight)
        return {
            "label": Term(jnp.sum(weight * loss), total),
            "accuracy": Term(jnp.sum(right), total, 0.0),
        }, ()


def _check(symbols: Symbols) -> None:
    if not symbols.labels:
        raise UserError(
            "objective classify needs labelled documents, which data.corpus does not "
            "have; docstrings does, and a .jsonl whose lines have a label"
        )
