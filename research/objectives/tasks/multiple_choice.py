"""Multiple choice: which of several texts continues or answers the first one."""

# B batch, L length, C choices

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from research import networks
from research.contract.batch import (
    PART,
    ArraySpec,
    Batch,
    Example,
    VocabInfo,
    input_specs,
)
from research.contract.errors import UserError
from research.contract.fields import choice, number
from research.data.documents import choice_names, label_key
from research.data.rows import TextSpec
from research.objectives.layout import input_format, sentence_pairs
from research.objectives.losses.cross_entropy import Term
from research.objectives.tasks import heads, task_input

HIDDEN = -1e9
"""The logit of a choice that an example does not have."""


@dataclass(frozen=True)
class Objective(task_input.Task):
    """Reads a document's first part with each of its other parts, the choices.

    A label is the number of the right choice, from 0, or its letter, from A or a.

    Each choice has one logit, with a softmax over the choices (XLNet's run_race.py,
    GPT's train.py). The choices of an example are segments of one row, each with the
    same number of columns, so no choice attends to another. If an example is too long,
    the end of the first part is left out.
    """

    choices: int = number(2, least=2)  # the most choices per example, among which a row
    # of data.length tokens is divided
    format: str = choice("bert", ("bert", "roberta", "xlnet", "gpt"))
    head: str = choice("tanh", heads.heads_of(heads.TEXT))

    predicts = "choice"
    head_reads = heads.TEXT
    huggingface_class = "ForMultipleChoice"

    @property
    def min_length(self) -> int:
        """For each choice the specials, a token of the question and one of its own."""
        return self.choices * (self.num_specials(2) + 2)

    def text_spec(self, length: int) -> TextSpec:
        most = length // self.choices  # of the first part, even if a choice leaves more
        room = 2 * length + task_input.LONG_PARTS
        return TextSpec("parts", room, max_first=most, label="choice")

    def batch_spec(self, length: int) -> dict[str, ArraySpec]:
        scored = {"scored": ArraySpec((self.choices,)), "num_choices": ArraySpec(())}
        return input_specs(length) | sentence_pairs.label_specs() | scored

    def corrupt(
        self, example: Example, key: np.ndarray, vocab: VocabInfo, length: int
    ) -> dict[str, np.ndarray]:
        """Lays out the choices; the label is hidden.

        Raises:
          UserError: an example has more choices than `choices`, or its label is not one
            of them.
        """
        width = length // self.choices
        room = width - self.num_specials(2)
        begin, size, number = self._choices(example)
        rows = []
        for n in range(self.choices):
            used = size[:, n] > 0
            of_choice = np.minimum(size[:, n], room - 1)
            of_first = np.minimum(example.first_length, room - of_choice) * used
            laid, arrays = self.lay_out(
                example,
                np.stack([0 * begin[:, n], begin[:, n]], axis=1),
                np.stack([of_first, of_choice], axis=1).astype(np.int64),
                vocab,
                width,
            )
            arrays["segment"] *= n + 1
            pooled = np.where(used, laid.pooled + n * width, 0)
            rows.append(arrays | {"scored": pooled[:, None].astype(np.int32)})
        batch = {name: np.concatenate([r[name] for r in rows], 1) for name in rows[0]}
        rest = length - self.choices * width
        for name, fill in (("token", vocab.pad_id), ("position", 0), ("segment", 0)):
            batch[name] = np.pad(batch[name], [(0, 0), (0, rest)], constant_values=fill)
        for name in ("token_type", "rank", "reach"):
            batch[name] = np.pad(batch[name], [(0, 0), (0, rest)])
        right = _choice_numbers(vocab)[example.label]
        if (wrong := (example.label >= 0) & (right >= number) & (number > 1)).any():
            row = int(wrong.argmax())
            raise UserError(
                f"label {right[row]} is not one of the {number[row]} choices of its "
                "example, which are counted from 0"
            )
        labelled = (example.label >= 0) & (number > 1) & (room > 1)
        return batch | {
            "num_choices": number.astype(np.int32),
            "label": np.where(labelled, right, 0).astype(np.int32),
            "label_weight": labelled.astype(np.float32),
        }

    def _choices(self, example: Example) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """begin and size [B, C] of the choices among the raw tokens; number [B]."""
        is_start = example.flags & PART > 0
        is_start &= np.arange(is_start.shape[1]) < example.length[:, None]
        number = is_start.sum(axis=1)
        if number.max(initial=0) > self.choices:
            raise UserError(
                f"an example has {number.max()} choices; objective.choices is "
                f"{self.choices}"
            )
        begin, used = input_format.scored_positions(is_start, self.choices)
        last = np.where(used, begin, example.length[:, None])
        end = np.append(last[:, 1:], example.length[:, None], axis=1)
        return begin, np.where(used, end - begin, 0), number

    def needs(self, vocab: VocabInfo) -> networks.Needs:
        return self.task_needs({"choice": heads.head_spec(self.head, 1)})

    def _logits(self, net: networks.BoundNetwork, batch: Batch) -> jax.Array:
        """[B, C] float32, HIDDEN for missing choices."""
        states = net.states(batch, scored=batch["scored"])
        logits_BC = net.head("choice", states)[..., 0]
        index = jnp.arange(self.choices)[None]
        return jnp.where(index < batch["num_choices"][:, None], logits_BC, HIDDEN)

    def loss(
        self, net: networks.BoundNetwork, batch: Batch, key: jax.Array
    ) -> tuple[dict[str, Term], Any]:
        """Terms: choice, and accuracy (a metric)."""
        terms = sentence_pairs.label_terms("choice", self._logits(net, batch), batch)
        return {"choice": terms["choice"], "accuracy": terms["choice_accuracy"]}, ()

    def predictions(
        self, net: networks.BoundNetwork, batch: Batch
    ) -> dict[str, jax.Array]:
        """logits [B, C], HIDDEN for missing choices."""
        return {"logits": self._logits(net, batch)}


def _choice_numbers(vocab: VocabInfo) -> np.ndarray:
    """[labels + 1]: the choice of each label; 0 for label -1 (no label)."""
    names = choice_names(vocab.labels)
    return np.array([*(names.index(label_key(each)) for each in vocab.labels), 0])
