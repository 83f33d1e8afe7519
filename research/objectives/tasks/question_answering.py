"""Extractive question answering: the answer is a span of the context (SQuAD)."""

# B batch, L length, D width, K starts, E ends of each start

import dataclasses
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
from research.objectives.losses.cross_entropy import (
    Term,
    binary_cross_entropy,
    with_accuracy,
)
from research.objectives.tasks import task_input

HIDDEN = -1e9
"""The logit of a position that cannot be part of the answer."""

UNANSWERABLE_COEF = 0.5
"""Factor of the loss of answerability (XLNet, run_squad.py; ELECTRA's
answerable_weight)."""


@dataclass(frozen=True)
class Objective(task_input.Task):
    """Reads a question and a window of its context; with format xlnet the window first.

    The target of a window that lacks part of the answer is the pooled position
    (google-research/bert, run_squad.py, convert_examples_to_features).

    linear  one layer gives each position a start logit and an end logit; the loss is
            the mean of both cross-entropies over all positions of the row; the score of
            no answer is that of the pooled position (run_squad.py, compute_loss).
    joint   XLNet's and ELECTRA's: the end logits also read the state of the start,
            which is the right one in training and each of the `n_best` most likely ones
            in predictions. Only positions of the context and the pooled position count.
            A third layer predicts whether there is no answer, from the pooled state and
            the mean of the states, weighted by their probability as a start. With
            format xlnet the layers are those of zihangdai/xlnet (function_builder.py,
            get_qa_outputs), where a window without the answer counts as unanswerable,
            else those of google-research/electra (finetune/qa/qa_tasks.py,
            get_prediction_module), where this depends on the question.

    Departs: all layers have the network's initial values; the last layer for
    answerability has no bias in XLNet's code; ELECTRA's context includes the last eos;
    head linear predicts from the `n_best` starts and ends of the context, BERT's code
    from those of the row, of which it then leaves out the ones outside the context.
    """

    format: str = choice("bert", task_input.ENCODER_FORMATS)
    head: str = choice("linear", task_input.heads("question_answering"))  # gelu_norm:
    # a dense layer, gelu and a norm before the last layer (ModernBERT)
    stride: int = number(128, least=1)  # tokens from one window to the next
    max_query: int = number(64, least=1)  # tokens of the question that are read
    max_answer: int = number(30, least=1)  # tokens of an answer that is predicted
    n_best: int = number(20, least=1)  # starts of a window that are combined with as
    # many ends (BERT, ELECTRA: 20; XLNet: 5)
    null_threshold: float = number(0.0, least=-1000, most=1000)  # no answer is
    # predicted where its score is higher, of head linear higher than the best span's by
    # more, if training questions are without answer (ELECTRA: -2.75)

    num_parts = 2
    shown_answers: ClassVar = {
        "span": "an answer is in the context, whose place is seen",
        "unanswerable": "a window without any context has no answer",
    }
    predicts = "span"

    def text_spec(self, length: int) -> TextSpec:
        room = length - self.num_specials(2)
        max_first = max(1, min(self.max_query, room // 2))
        return TextSpec(
            "parts", room, stride=self.stride, max_first=max_first, label="answer"
        )

    def batch_spec(self, length: int) -> dict[str, ArraySpec]:
        joint = {"unanswerable": ArraySpec(())} if self.head == "joint" else {}
        return input_specs(length) | {
            "answer": ArraySpec((2,)),
            "answer_weight": ArraySpec((), np.float32),
            "context": ArraySpec((2,)),
            **joint,
        }

    def corrupt(
        self, example: Example, key: np.ndarray, vocab: VocabInfo, length: int
    ) -> dict[str, np.ndarray]:
        """Lays out question and window; the position of the answer is hidden.

        `answer` has its first and last position, `context` the window's first position
        and its number of tokens.
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
        joint = {}
        if self.head == "joint":
            impossible = np.array([*vocab.labels, ""])[example.label] == UNANSWERABLE
            if self.format == "xlnet":
                impossible = ~whole[:, 0]
            joint["unanswerable"] = (impossible & labelled).astype(np.int32)
        return batch | {
            **joint,
            "answer": np.where(labelled[:, None], answer, 0).astype(np.int32),
            "answer_weight": labelled.astype(np.float32),
            "context": where.astype(np.int32),
        }

    def needs(self, vocab: VocabInfo) -> networks.Needs:
        if self.head == "linear":
            return self.task_needs({"span": networks.HeadSpec(2, "none")})
        if self.head != "joint":
            return self.task_needs({"span": task_input.head_spec(self.head, 2)})
        end = unanswerable = networks.HeadSpec(1, "gelu", hidden=512)
        if self.format == "xlnet":
            layer = networks.HeadSpec(1, "tanh", shares_pooler=False)
            end = dataclasses.replace(layer, norm=True)
            unanswerable = dataclasses.replace(layer, dropout=True)
        start = networks.HeadSpec(1, "none")
        heads = {"start": start, "end": end, "unanswerable": unanswerable}
        return self.task_needs(heads)

    def loss(
        self, net: networks.BoundNetwork, batch: Batch, key: jax.Array
    ) -> tuple[dict[str, Term], Any]:
        """Terms: span; metrics: exact; with head joint also unanswerable.

        exact is the fraction of windows with start and end right; unanswerable has the
        metric unanswerable_accuracy.
        """
        states = net.states(batch)
        answer, weight, terms = batch["answer"], batch["answer_weight"], {}
        if self.head == "joint":
            start_BL = self._start_logits(net, states, batch)
            end_B1L = self._end_logits(net, states, answer[:, :1], batch)
            logits_BL2 = jnp.stack([start_BL, end_B1L[:, 0]], axis=2)
            logit = self._unanswerable(net, states, start_BL, batch)
            found = binary_cross_entropy(logit, batch["unanswerable"], weight)
            terms = with_accuracy("unanswerable", *found, coef=UNANSWERABLE_COEF)
        else:
            logits_BL2 = net.head("span", states)
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
        if self.head == "joint":
            start_BL = self._start_logits(net, states, batch)
            null = self._unanswerable(net, states, start_BL, batch)
            start_score_BK, start_BK = jax.lax.top_k(
                jax.nn.log_softmax(start_BL), count
            )
            end_BKL = self._end_logits(net, states, start_BK, batch)
            end_score_BKE, end_BKE = jax.lax.top_k(jax.nn.log_softmax(end_BKL), count)
        else:
            logits_BL2 = net.head("span", states)
            null = jnp.sum(_at(logits_BL2, self._pooled(batch)), axis=1)
            hidden_BL1 = ~_in_context(batch)[..., None]
            logits_BL2 = jnp.where(hidden_BL1, HIDDEN, logits_BL2)
            start_score_BK, start_BK = jax.lax.top_k(logits_BL2[..., 0], count)
            ends = jax.lax.top_k(logits_BL2[..., 1], count)
            end_score_BKE, end_BKE = (
                jnp.repeat(array[:, None], count, axis=1) for array in ends
            )
        score_BKE = start_score_BK[..., None] + end_score_BKE
        candidates = {"start": start_BK, "end": end_BKE, "score": score_BKE}
        return candidates | {"null": null, "context": batch["context"]}

    def _pooled(self, batch: Batch) -> jax.Array:
        """[B] int32: the pooled position, bos."""
        last = jnp.maximum((batch["segment"] > 0).sum(axis=1) - 1, 0)
        return last if self.format == "xlnet" else 0 * last

    def _start_logits(
        self, net: networks.BoundNetwork, states_BLD: jax.Array, batch: Batch
    ) -> jax.Array:
        """Start logits [B, L] float32, HIDDEN where the answer cannot be."""
        logits_BL = net.head("start", states_BLD)[..., 0]
        return jnp.where(self._may_answer(batch), logits_BL, HIDDEN)

    def _end_logits(
        self,
        net: networks.BoundNetwork,
        states_BLD: jax.Array,
        start_BK: jax.Array,
        batch: Batch,
    ) -> jax.Array:
        """End logits [B, K, L] float32 given each start, HIDDEN as start logits are."""
        first_BKD = jnp.take_along_axis(states_BLD, start_BK[..., None], axis=1)
        shape = (*start_BK.shape, *states_BLD.shape[1:])
        pair = states_BLD[:, None], first_BKD[:, :, None]
        both = [jnp.broadcast_to(states, shape) for states in pair]
        logits_BKL = net.head("end", jnp.concatenate(both, axis=3))[..., 0]
        return jnp.where(self._may_answer(batch)[:, None], logits_BKL, HIDDEN)

    def _unanswerable(
        self,
        net: networks.BoundNetwork,
        states_BLD: jax.Array,
        start_BL: jax.Array,
        batch: Batch,
    ) -> jax.Array:
        """[B] float32: the logit that there is no answer."""
        p_start_BL = jax.nn.softmax(start_BL).astype(states_BLD.dtype)
        start_BD = jnp.einsum("bl,bld->bd", p_start_BL, states_BLD)
        both_B2D = jnp.concatenate(
            [_at(states_BLD, self._pooled(batch)), start_BD], axis=1
        )
        return net.head("unanswerable", both_B2D)[:, 0]

    def _may_answer(self, batch: Batch) -> jax.Array:
        """[B, L] bool: positions of the context, and the pooled position."""
        position = jnp.arange(batch["token"].shape[1])
        return _in_context(batch) | (position[None] == self._pooled(batch)[:, None])


def _in_context(batch: Batch) -> jax.Array:
    """[B, L] bool: the positions of the window."""
    begin_B1, size_B1 = batch["context"][:, :1], batch["context"][:, 1:]
    offset_BL = jnp.arange(batch["token"].shape[1])[None] - begin_B1
    return (offset_BL >= 0) & (offset_BL < size_B1)


def _at(array_BLD: jax.Array, position_B: jax.Array) -> jax.Array:
    """[B, D]: the entry of each row at its position."""
    return array_BLD[jnp.arange(len(position_B)), position_B]
