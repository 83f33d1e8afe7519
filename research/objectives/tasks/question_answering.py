"""Extractive question answering: the answer is a span of the context (SQuAD)."""

# B batch, L length, K starts, E ends of each start

from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from research import networks
from research.contract.batch import (
    ANSWER_END,
    ANSWER_START,
    ArraySpec,
    Batch,
    Example,
    VocabInfo,
    input_specs,
)
from research.contract.fields import choice, number
from research.data.documents import UNANSWERABLE
from research.data.rows import TextSpec
from research.objectives.losses.cross_entropy import Term
from research.objectives.tasks import heads, spans, task_input


@dataclass(frozen=True)
class Objective(task_input.Task):
    """Reads a question and a window of its context (format xlnet: the window first).

    The target of a window that lacks part of the answer is the pooled position
    (google-research/bert, run_squad.py, convert_examples_to_features).

    linear  one layer gives each position a start logit and an end logit. The loss is
            the mean of both cross-entropies over all positions of the row. The score of
            no answer is that of the pooled position (run_squad.py, compute_loss).
    joint   as in XLNet and ELECTRA: the end logits also read the state of the start,
            which is the right one in training and each of the `n_best` most likely ones
            in predictions. Only positions of the context and the pooled position count.
            A third layer predicts whether there is no answer, from the pooled state and
            the mean of the states weighted by their probability as a start. With format
            xlnet the layers are those of zihangdai/xlnet (function_builder.py,
            get_qa_outputs), where a window without the answer counts as unanswerable;
            otherwise those of google-research/electra (finetune/qa/qa_tasks.py,
            get_prediction_module), where this depends on the question.

    Departs: all layers have the network's initial values; the last layer for
    answerability has no bias in XLNet's code; ELECTRA's context includes the last eos;
    head linear predicts from the `n_best` starts and ends of the context, BERT's code
    from those of the row, and then drops the ones outside the context.
    """

    format: str = choice("bert", task_input.ENCODER_FORMATS)
    head: str = choice("linear", heads.heads_of(heads.SPANS))
    stride: int = number(128, least=1)  # tokens from one window to the next
    max_query: int = number(64, least=1)  # the most tokens of the question
    max_answer: int = number(30, least=1)  # the most tokens of a predicted answer
    n_best: int = number(20, least=1)  # starts of a window, each of which is combined
    # with as many ends (BERT, ELECTRA: 20; XLNet: 5)
    null_threshold: float = number(0.0, least=-1000, most=1000)  # no answer is
    # predicted if its score (head linear: its excess over the best span's) is above
    # this and some training questions have no answer (ELECTRA: -2.75)

    num_parts = 2
    shown_answers: ClassVar = {
        "span": "an answer is in the context, whose place is seen",
        "unanswerable": "a window without any context has no answer",
    }
    predicts = "span"
    head_reads = heads.SPANS
    huggingface_class = "ForQuestionAnswering"

    def text_spec(self, length: int) -> TextSpec:
        room = length - self.num_specials(2)
        max_first = max(1, min(self.max_query, room // 2))
        return TextSpec(
            "parts", room, stride=self.stride, max_first=max_first, label="answer"
        )

    def batch_spec(self, length: int) -> dict[str, ArraySpec]:
        more = {"unanswerable": ArraySpec(())} if self.tells_unanswerable else {}
        return input_specs(length) | {
            "answer": ArraySpec((2,)),
            "answer_weight": ArraySpec((), np.float32),
            "context": ArraySpec((2,)),
            **more,
        }

    def corrupt(
        self, example: Example, key: np.ndarray, vocab: VocabInfo, length: int
    ) -> dict[str, np.ndarray]:
        """Lays out question and window; the position of the answer is hidden.

        `answer` holds its first and last position, `context` the first position and the
        number of tokens of the window.
        """
        begin, size = task_input.two_parts(example, self.text_spec(length).length)
        context = 1  # its index among the parts
        if self.format == "xlnet":
            begin, size, context = begin[:, ::-1], size[:, ::-1], 0
        laid, batch = self.lay_out(example, begin, size, vocab, length)
        shift = laid.begin[:, context] - begin[:, context]
        inside = np.arange(example.flags.shape[1]) >= begin[:, context, None]
        ends = [example.flags & bit > 0 for bit in (ANSWER_START, ANSWER_END)]
        found = [np.any(flag & inside, axis=1) for flag in ends]
        whole = (found[0] & found[1])[:, None]
        answer = np.stack([flag.argmax(axis=1) + shift for flag in ends], axis=1)
        whole &= (answer[:, 1] >= answer[:, 0])[:, None]
        answer = np.where(whole, answer, laid.pooled[:, None])
        labelled = (example.label >= 0) & (laid.text.length > 0)
        where = np.stack([laid.begin[:, context], size[:, context]], axis=1)
        where[size[:, context] == 0] = 0
        more = {}
        if self.tells_unanswerable:
            impossible = np.array([*vocab.labels, ""])[example.label] == UNANSWERABLE
            if self.format == "xlnet":
                impossible = ~whole[:, 0]
            more["unanswerable"] = (impossible & labelled).astype(np.int32)
        return batch | {
            **more,
            "answer": np.where(labelled[:, None], answer, 0).astype(np.int32),
            "answer_weight": labelled.astype(np.float32),
            "context": where.astype(np.int32),
        }

    def needs(self, vocab: VocabInfo) -> networks.Needs:
        has_layer = heads.HEADS[self.head].layer != "none"
        layers = heads.head_spec(self.head, 2, dropout=has_layer)
        return self.task_needs(self._own.heads(self.format, layers))

    def loss(
        self, net: networks.BoundNetwork, batch: Batch, key: jax.Array
    ) -> tuple[dict[str, Term], Any]:
        """Terms: span; metrics: exact; with head joint also unanswerable.

        exact is the fraction of windows with start and end right; unanswerable has the
        metric unanswerable_accuracy.
        """
        states = net.states(batch)
        answer, weight = batch["answer"], batch["answer_weight"]
        logits_BL2, terms = self._own.logits(net, states, batch, self._pooled(batch))
        log_p = jax.nn.log_softmax(logits_BL2, axis=1)
        loss = -jnp.take_along_axis(log_p, answer[:, None], axis=1)[:, 0].mean(axis=1)
        right = (jnp.argmax(logits_BL2, axis=1) == answer).all(axis=1)
        total = jnp.sum(weight)
        exact = Term(jnp.sum(weight * right), total, 0.0)
        span = Term(jnp.sum(weight * loss), total)
        return {"span": span, "exact": exact} | terms, ()

    def predictions(
        self, net: networks.BoundNetwork, batch: Batch
    ) -> dict[str, jax.Array]:
        """start [B, K], end, score [B, K, E] of candidates; null [B]; context [B, 2].

        K and E are `n_best`, or the length of the row. With head joint, scores are
        log p.
        """
        states = net.states(batch)
        count = min(self.n_best, states.shape[1])
        found = self._own.candidates(net, states, batch, self._pooled(batch), count)
        return found._asdict() | {"context": batch["context"]}

    @property
    def tells_unanswerable(self) -> bool:
        """Whether a separate layer predicts that there is no answer."""
        return self._own.tells_unanswerable

    @property
    def _own(self) -> spans.Independent:
        """How the head predicts spans from states."""
        return heads.HEADS[self.head].spans

    def _pooled(self, batch: Batch) -> jax.Array:
        """[B] int32: the pooled position, bos."""
        last = jnp.maximum((batch["segment"] > 0).sum(axis=1) - 1, 0)
        return last if self.format == "xlnet" else 0 * last
