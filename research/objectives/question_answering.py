"""Extractive question answering: the answer is a span of the context (SQuAD)."""

# B batch, L length

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from research import models
from research.batch import (
    ANSWER_END,
    ANSWER_START,
    ArraySpec,
    Example,
    TextSpec,
    VocabInfo,
    input_specs,
)
from research.fields import check, choice, number
from research.objectives.inputs import task_input
from research.objectives.losses.cross_entropy import Term


@dataclass(frozen=True)
class Objective:
    """Reads a question and a window over its context; BERT's head and loss.

    One layer gives each position a logit as first and as last token of the answer; the
    loss is the mean of both cross-entropies over all positions of the row. The target
    of a window without the whole answer is the pooled position (google-research/bert,
    run_squad.py, convert_examples_to_features and compute_loss). XLNet reads the
    context first (run_squad.py); its head, which reads the start's state for the end,
    is not here.
    """

    format: str = choice("bert", task_input.ENCODER_FORMATS)
    stride: int = number(128, least=1)  # tokens from one window to the next
    max_query: int = number(64, least=1)  # tokens of the question that are read
    max_answer: int = number(30, least=1)  # tokens of an answer that is predicted
    n_best: int = number(20, least=1)  # starts and ends of a window that are combined
    null_threshold: float = number(0.0, least=-1000, most=1000)  # no answer is
    # predicted where its score is higher than the best span's by more, if training
    # questions are without answer

    family = "supervised"
    pattern = "full"
    predicts = "span"
    supports_accumulation = True

    def __post_init__(self):
        check(self)

    @property
    def min_length(self) -> int:
        """The specials of question and context, and a token."""
        return task_input.num_specials(self.format, 2) + 1

    def text_spec(self, length: int) -> TextSpec:
        room = length - task_input.num_specials(self.format, 2)
        max_first = max(1, min(self.max_query, room // 2))
        return TextSpec(
            "parts", room, stride=self.stride, max_first=max_first, label="class"
        )

    def batch_spec(self, length: int) -> dict[str, ArraySpec]:
        return input_specs(length) | {
            "answer": ArraySpec((2,)),
            "answer_weight": ArraySpec((), np.float32),
            "context": ArraySpec((2,)),
        }

    def corrupt(
        self, example: Example, key: np.ndarray, vocab: VocabInfo, length: int
    ) -> dict[str, np.ndarray]:
        """Lays out question and window; where the answer is, is what is hidden.

        `answer` is its first and last position, `context` the window's first position
        and its number of tokens.
        """
        begin, size = task_input.two_parts(example, self.text_spec(length).length)
        context = 1  # its place among the parts
        if self.format == "xlnet":
            begin, size, context = begin[:, ::-1], size[:, ::-1], 0
        laid = task_input.lay_out(example, begin, size, vocab, length, self.format)
        shift = laid.begin[:, context] - begin[:, context]
        inside = np.arange(example.flags.shape[1]) >= begin[:, context, None]
        ends = [example.flags & bit > 0 for bit in (ANSWER_START, ANSWER_END)]
        found = [(flag & inside).any(axis=1) for flag in ends]
        whole = (found[0] & found[1])[:, None]
        answer = np.stack([flag.argmax(axis=1) + shift for flag in ends], axis=1)
        whole &= (answer[:, 1] >= answer[:, 0])[:, None]
        answer = np.where(whole, answer, laid.pooled[:, None])
        labelled = (example.label >= 0) & (laid.text.length > 0)
        where = np.stack([laid.begin[:, context], size[:, context]], axis=1)
        where[size[:, context] == 0] = 0
        return task_input.network_input(laid.text, self.format) | {
            "answer": np.where(labelled[:, None], answer, 0).astype(np.int32),
            "answer_weight": labelled.astype(np.float32),
            "context": where.astype(np.int32),
        }

    def network(self, options: Any, vocab: VocabInfo) -> Any:
        """Raises UserError: model.token_types are too few."""
        task_input.check_token_types(options, self.format)
        heads = {"span": models.HeadSpec(2, "none")}
        return models.Transformer(
            options, size=vocab.size, pattern=self.pattern, heads=heads
        )

    def loss(self, net: Any, batch: dict, key: Any) -> tuple[dict[str, Term], Any]:
        """Terms: span; metric: exact, the fraction of windows with both ends right."""
        logits_BL2 = net.head("span", net.states(batch))
        answer, weight = batch["answer"], batch["answer_weight"]
        log_p = jax.nn.log_softmax(logits_BL2, axis=1)
        loss = -jnp.take_along_axis(log_p, answer[:, None], axis=1)[:, 0].mean(axis=1)
        right = (jnp.argmax(logits_BL2, axis=1) == answer).all(axis=1)
        total = jnp.sum(weight)
        exact = Term(jnp.sum(weight * right), total, 0.0)
        return {"span": Term(jnp.sum(weight * loss), total), "exact": exact}, ()

    def predict(self, net: Any, batch: dict) -> dict[str, jax.Array]:
        """logits [B, L, 2] of start and end, null [B], context [B, 2]."""
        logits_BL2 = net.head("span", net.states(batch))
        pooled = jnp.zeros(len(logits_BL2), jnp.int32)
        if self.format == "xlnet":
            pooled = jnp.maximum((batch["segment"] > 0).sum(axis=1) - 1, 0)
        null = logits_BL2[jnp.arange(len(pooled)), pooled].sum(axis=1)
        return {"logits": logits_BL2, "null": null, "context": batch["context"]}
