"""Classification of a picture and a text together, for fine-tuning (NLVR, VQA)."""

# B batch, N labels

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from research import networks
from research.contract.batch import ArraySpec, Batch, Example, VocabInfo
from research.contract.errors import UserError
from research.data.documents import single_labels
from research.data.read.formats.captioned import IMAGE
from research.data.rows import TextSpec
from research.objectives.images import picture_rows
from research.objectives.layout import sentence_pairs
from research.objectives.losses.cross_entropy import Term


@dataclass(frozen=True)
class Objective(picture_rows.PictureRows):
    """Reads a row of `image_text` in which nothing is hidden; predicts the label.

    A label is one of several, such as true and false of a sentence, or an answer to a
    question. Texts are those of `palimpsest images --label-column=C`, and `images` is
    its folder. `regions`, `patch`, `box` and `pool` are those of the run from which
    training starts (train.init_from). Rows without a label have weight 0.
    """

    predicts = "class"

    def text_spec(self, length: int) -> TextSpec:
        return TextSpec("document", length - 2, label="class", arrays=(IMAGE,))

    def batch_spec(self, length: int) -> dict[str, ArraySpec]:
        return self.picture_specs(length) | sentence_pairs.label_specs()

    def corrupt(
        self, example: Example, key: np.ndarray, vocab: VocabInfo, length: int
    ) -> dict[str, np.ndarray]:
        """Hides the label.

        Raises:
          UserError: a text names a picture that `images` lacks.
        """
        labelled = (example.length > 0) & (example.label >= 0)
        return self.pair_input(example, vocab, length) | {
            "label": np.where(labelled, example.label, 0).astype(np.int32),
            "label_weight": labelled.astype(np.float32),
        }

    def needs(self, vocab: VocabInfo) -> networks.Needs:
        """Raises UserError: the texts have fewer than two labels."""
        classes = single_labels(vocab.labels)
        if len(classes) < 2:
            raise UserError(
                f"a classifier needs texts of two labels or more, got {len(classes)}; "
                "give palimpsest images --label-column"
            )
        return self.row_needs(self.pooled_heads("label", len(classes), dropout=True))

    def _logits(self, net: networks.BoundNetwork, batch: Batch) -> jax.Array:
        states = net.states(self.group(batch), scored=self.pooled(batch))
        return self.pooled_logits(net, "label", states)

    def loss(
        self, net: networks.BoundNetwork, batch: Batch, key: jax.Array
    ) -> tuple[dict[str, Term], Any]:
        """Terms: label, and accuracy (a metric)."""
        found = sentence_pairs.label_terms("label", self._logits(net, batch), batch)
        return {"label": found["label"], "accuracy": found["label_accuracy"]}, ()

    def predictions(
        self, net: networks.BoundNetwork, batch: Batch
    ) -> dict[str, jax.Array]:
        """logits [B, N] float32."""
        return {"logits": self._logits(net, batch)}
