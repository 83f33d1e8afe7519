"""Classification of words (named entities, chunks, parts of speech) in fine-tuning."""

# B batch, L length, N labels

from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from research import networks
from research.contract.batch import (
    PART,
    ArraySpec,
    Batch,
    ConstantSpec,
    Example,
    VocabInfo,
    input_group,
    input_specs,
    scored_specs,
)
from research.contract.fields import choice, free_text, number
from research.data.rows import TextSpec
from research.objectives.losses.cross_entropy import Term
from research.objectives.tasks import heads, tags, task_input


@dataclass(frozen=True)
class Objective(task_input.Task):
    """Reads the words of a document; the first token of a word has its tag.

    The last layer reads only that token's state (Devlin et al. 2019, 5.3). Words beyond
    the row are not scored; evaluations count them as predicted "O".

    linear  a softmax for each word's tag.
    crf     a linear-chain CRF over these logits (Lample et al. 2016); predicted tags
            are the best sequence (Viterbi). The loss is -log p of the sequences of
            tags, divided by the number of words as with linear.

    With optimizer.frozen=token,embeddings,stack the network is not tuned, and the head
    learns from `features` and `lstm_layers` (Devlin et al. 2019, section 5.3: concat,
    two layers; Peters et al. 2018: mix); model.dropout=0 leaves the features unchanged.
    """

    format: str = choice("bert", task_input.FORMATS)  # bart: the head reads the states
    # of the encoder, which no paper reports
    head: str = choice("linear", heads.heads_of(heads.WORDS))
    features: str = choice("last", networks.FEATURES)  # states that the head reads: of
    # the last block; of the last four, joined; a learned mix of embeddings and blocks;
    # only vectors; vectors, then the states of the last block (CoVe)
    lstm_layers: int = number(0, least=0, most=8)  # of a BiLSTM between the features
    # and the head, with model.width units per direction; 0: none
    vectors: str = free_text("", source="vectors")  # word vectors that the network
    # reads in addition to its own (task_input.VECTORS); "": none
    vectors_width: int = number(0, least=0, most=2**20)  # their width

    predicts = "tags"
    head_reads = heads.WORDS
    huggingface_class = "ForTokenClassification"
    head_weights: ClassVar = {"tag": "weight"}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.format == "bart" and (self.features != "last" or self.lstm_layers):
            raise ValueError("features must be last and lstm_layers 0 with format bart")
        task_input.check_vectors(self)

    def text_spec(self, length: int) -> TextSpec:
        room = length - self.num_specials(1)
        return TextSpec("document", room, label="tags", arrays=("tags",))

    def row_length(self, first_length: np.ndarray, length: np.ndarray) -> np.ndarray:
        """[n]: lengths for `length` raw tokens, `first_length` in the first part."""
        return length + self.num_specials(1)

    def batch_spec(self, length: int) -> dict[str, ArraySpec]:
        prefix = "encoder_" if self.format == "bart" else ""
        specs = scored_specs(length, gathered=False) | {"word": ArraySpec((length,))}
        return input_specs(length, prefix) | specs

    def corrupt(
        self, example: Example, key: np.ndarray, vocab: VocabInfo, length: int
    ) -> dict[str, np.ndarray]:
        """Lays out the words; their tags are hidden.

        `word` is 1 where words begin, including those whose tag the training text
        lacks, which are predicted but not scored.
        """
        whole = example._replace(first_length=example.length)
        begin, size = task_input.two_parts(whole, self.text_spec(length).length)
        _, batch = self.lay_out(example, begin, size, vocab, length)
        width = min(example.token.shape[1], self.text_spec(length).length)
        tag, word = np.full((2, len(size), length), [[[-1]], [[0]]], np.int32)
        first = int(self.format != "xlnet")
        starts = (example.flags & PART) > 0
        starts[:, :1] = True
        own = np.where(starts, example.arrays["tags"], -1)
        tag[:, first : first + width] = own[:, :width]
        word[:, first : first + width] = starts[:, :width]
        word &= np.arange(length) < first + size[:, :1]
        is_scored = (tag >= 0) & (word > 0)
        batch |= {
            "target": np.where(is_scored, tag, 0),
            "weight": is_scored.astype(np.float32),
            "word": word,
        }
        return {name: batch[name] for name in self.batch_spec(length)}

    def constants(self, vocab: VocabInfo) -> dict[str, ConstantSpec]:
        return task_input.vector_constants(self, vocab)

    def needs(self, vocab: VocabInfo) -> networks.Needs:
        num_tags = max(1, len(vocab.labels))
        logits = {"tag": heads.head_spec(self.head, num_tags)}
        return self.task_needs(
            logits | self._own.heads(num_tags),
            features=self.features,
            feature_lstm_layers=self.lstm_layers,
            input_features=self.vectors_width,
        )

    def loss(
        self, net: networks.BoundNetwork, batch: Batch, key: jax.Array
    ) -> tuple[dict[str, Term], Any]:
        """Terms: tag, and accuracy (a metric)."""
        logits_BLN = self._logits(net, batch)
        target, weight = batch["target"], batch["weight"]
        loss = self._own.loss(net, logits_BLN, target, weight)
        total = jnp.sum(weight)
        predicted = self._own.best(net, logits_BLN, weight > 0)
        correct = jnp.sum(weight * (predicted == target))
        terms = {"tag": Term(jnp.sum(loss), total)}
        return terms | {"accuracy": Term(correct, total, 0.0)}, ()

    def predictions(
        self, net: networks.BoundNetwork, batch: Batch
    ) -> dict[str, jax.Array]:
        """tag [B, L] int32, the predicted tags; probability and weight [B, L].

        probability is that of each tag (marginal for a CRF); weight is 1 where words
        begin.
        """
        logits_BLN = self._logits(net, batch)
        tag_BL = self._own.best(net, logits_BLN, batch["word"] > 0)
        probability_BLN = self._own.probabilities(net, logits_BLN, batch["word"] > 0)
        of_tag_BL1 = jnp.take_along_axis(probability_BLN, tag_BL[..., None], axis=2)
        return {
            "tag": tag_BL,
            "probability": of_tag_BL1[..., 0],
            "weight": batch["word"],
        }

    @property
    def _own(self) -> tags.Softmax:
        """How the head predicts tags from logits."""
        return heads.HEADS[self.head].tags

    def _logits(self, net: networks.BoundNetwork, batch: Batch) -> jax.Array:
        """[B, L, N] float32."""
        if self.format == "bart":
            states = net.encode(input_group(batch, "encoder_")).states
        else:
            states = net.features(task_input.with_vectors(self, batch))
        return net.head("tag", states)
