"""Classification or regression of a text or a pair of texts, for fine-tuning."""

# B batch, L length, D width, N labels

from dataclasses import dataclass
from typing import Any, cast

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
from research.contract.errors import UserError
from research.contract.fields import choice, free_text, number
from research.data.documents import label_key, single_labels
from research.data.rows import TextSpec, parts
from research.objectives.layout import sentence_pairs
from research.objectives.layout.mean_state import mean_state
from research.objectives.losses.cross_entropy import (
    Term,
    binary_cross_entropy,
    cross_entropy,
)
from research.objectives.tasks import heads, task_input

MAX_LABELS = 31
"""The most labels of task "multi", whose sets of labels are the bits of an int32."""


def _max(states_BLD: jax.Array, segment_BL: jax.Array) -> jax.Array:
    """[B, D]: the largest values at non-padding positions; 0 in rows without any."""
    here_BL1 = (segment_BL > 0)[..., None]
    largest_BD = jnp.max(jnp.where(here_BL1, states_BLD, -jnp.inf), axis=1)
    return jnp.where(here_BL1.any(axis=1), largest_BD, 0)


def _concat(states_BLD: jax.Array, segment_BL: jax.Array) -> jax.Array:
    """[B, 3 D]: the last state, the largest values, the mean."""
    last_B = jnp.maximum(jnp.sum(segment_BL > 0, axis=1) - 1, 0)
    last_BD = jnp.take_along_axis(states_BLD, last_B[:, None, None], axis=1)[:, 0]
    pooled = [pool(states_BLD, segment_BL) for pool in (_max, mean_state)]
    return jnp.concatenate([last_BD, *pooled], axis=-1)


TOKENS = ("token", "first", "last")
POOLS = {"mean": mean_state, "max": _max, "concat": _concat}
LABEL_TYPES = {"single": "class", "multi": "set", "regression": "number"}


@dataclass(frozen=True)
class Objective(task_input.Task):
    """Reads a document's first part and all others; unlabelled rows have weight 0.

    single      one label of several: cross-entropy.
    multi       any number of labels: a binary cross-entropy for each.
    regression  a number: squared error of label / `label_scale` (5 for STS-B in RoBERTa
                and ELECTRA).

    With a `stride`, a single text that is too long is cut into chunks, which are rows
    with the text's label and weight 1; the terms loss and accuracy count chunks. A
    prediction is the mean of the logits of a text's chunks, so metrics and items count
    texts (Pappagari et al. 2019 train BERT on segments and average predictions; Sun et
    al. 2019, section 5.3.1, train on pooled states instead).
    """

    format: str = choice("bert", task_input.FORMATS)
    task: str = choice("single", tuple(LABEL_TYPES))
    head: str = choice("tanh", heads.heads_of(heads.TEXT))  # dropout
    # before the last layer: model.head_dropout
    head_width: int = number(0, least=0, most=2**20)  # of the layer before the last;
    # 0: model.width
    pool: str = choice("token", (*TOKENS, *POOLS))  # the state that the head reads:
    # that of the format's token, the first or the last one; or, over all tokens (of
    # the encoder with format bart, which needs no token that stands for the whole
    # text), their mean; the largest value of each unit (max over time, Kim 2014); or
    # concat: the last state, these and the mean (concat pooling, Howard and Ruder
    # 2018, section 3.3)
    label_scale: float = number(1.0, above=0)  # divides labels of task regression
    lm_coef: float = number(0.0, least=0)  # of the LM loss of the same text, averaged
    # over the tokens of a text and then over texts, with format gpt (GPT: 0.5;
    # openai/finetune-transformer-lm, train.py)
    tail: int = number(0, least=0)  # last tokens that are kept of a single text that is
    # too long; the rest is filled with its first ones. 0: its beginning; data.length:
    # its end; 382 of 512: first 128 and last 382 (Sun et al. 2019, section 5.3.1)
    stride: int = number(0, least=0)  # a single text that is too long is cut into
    # chunks that start at multiples of it; data.length: without overlap. 0: no chunks
    features: str = choice("last", networks.FEATURES)  # states whose pooled position
    # the head reads, as in token_classification; not with format bart
    lstm_layers: int = number(0, least=0, most=8)  # as in token_classification
    vectors: str = free_text("", source="vectors")  # word vectors that the network
    # reads in addition to its own (task_input.VECTORS); "": none
    vectors_width: int = number(0, least=0, most=2**20)  # their width

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pool in ("first", "last") and self.format == "bart":
            raise ValueError("pool must be token with format bart")
        if self.lm_coef and (self.format != "gpt" or self.pool != "token"):
            raise ValueError(
                f"lm_coef={self.lm_coef:g} needs format=gpt and pool=token; got "
                f"format={self.format} and pool={self.pool}"
            )
        not_last = [f"features={self.features}"] * (self.features != "last")
        not_last += [f"lstm_layers={self.lstm_layers}"] * (self.lstm_layers > 0)
        if not_last and (self.format == "bart" or self.lm_coef):
            other = "lm_coef" if self.lm_coef else "format=bart"
            raise ValueError(
                f"{not_last[0]} cannot be used with {other}; set features=last and "
                "lstm_layers=0"
            )
        not_pooled = [each for each in not_last if each != "features=mix"]
        not_pooled += ["pool=concat"] * (self.pool == "concat")
        layer = heads.HEADS[self.head].layer
        if layer == "tanh" and not_pooled:
            raise ValueError(
                f"{not_pooled[0]} needs another head than {self.head}, whose pooler "
                "reads one state of the network; set head="
                f"{heads.with_other_layers([layer])}"
            )
        why = {"tanh": "whose layer is the pooler", "none": "which has no layer"}
        if layer in why and self.head_width:
            raise ValueError(
                f"head_width={self.head_width} cannot be used with head={self.head}, "
                f"{why[layer]}; set head={heads.with_other_layers(why)}, or "
                "head_width=0"
            )
        task_input.check_vectors(self)
        if self.tail and self.stride:
            raise ValueError(
                "tail must be 0 with a stride, whose chunks cover the whole text"
            )

    head_reads = heads.TEXT
    huggingface_class = "ForSequenceClassification"

    @property
    def predicts(self) -> str:
        """The kind of prediction, see research.predictions."""
        return LABEL_TYPES[self.task]

    def text_spec(self, length: int) -> TextSpec:
        one, two = map(self.num_specials, (1, 2))
        room = length - one
        return TextSpec(
            "parts",
            room,
            label=LABEL_TYPES[self.task],
            tail=self.tail,
            stride=self.stride,
            separators=min(two - one, room - 1),  # at least one token is left
        )

    def row_length(self, first_length: np.ndarray, length: np.ndarray) -> np.ndarray:
        """[n]: lengths for `length` raw tokens, `first_length` in the first part."""
        one, two = map(self.num_specials, (1, 2))
        return length + np.where(first_length < length, two, one)

    def batch_spec(self, length: int) -> dict[str, ArraySpec]:
        dtype = np.float32 if self.task == "regression" else np.int32
        specs = sentence_pairs.label_specs() | {"label": ArraySpec((), dtype)}
        if self.pool in TOKENS:
            specs["pooled"] = ArraySpec((1,))
        if self.lm_coef:
            specs |= scored_specs(length, gathered=False)
        prefixes = ("encoder_", "decoder_") if self.format == "bart" else ("",)
        for prefix in prefixes[: None if self.pool in TOKENS else 1]:
            specs |= input_specs(length, prefix)
        return specs

    def corrupt(
        self, example: Example, key: np.ndarray, vocab: VocabInfo, length: int
    ) -> dict[str, np.ndarray]:
        """Lays out the parts; the label is hidden.

        Raises:
          UserError: the documents have no labels, or labels of another task.
        """
        if self.tail:
            example = _join_tails(example)
        spec = cast(parts.Unit, self.text_spec(length))
        begin, size = task_input.two_parts(example, spec.length, spec.separators)
        laid, batch = self.lay_out(example, begin, size, vocab, length)
        pooled = {
            "first": np.zeros_like(laid.pooled),
            "last": np.maximum(laid.text.length - 1, 0),
        }.get(self.pool, laid.pooled)
        values = self._label_values(vocab)
        labelled = (example.label >= 0) & (laid.text.length > 0)
        label = np.where(labelled, values[np.maximum(example.label, 0)], 0)
        batch |= {
            "pooled": pooled[:, None].astype(np.int32),
            "label": label.astype(values.dtype),
            "label_weight": labelled.astype(np.float32),
        }
        if self.lm_coef:
            batch["target"] = np.roll(laid.text.token, -1, axis=1)
            is_last = np.arange(length) >= laid.text.length[:, None] - 1
            batch["target"][is_last] = vocab.pad_id
            count = np.maximum(laid.text.length - 1, 1)
            batch["weight"] = (~is_last / count[:, None]).astype(np.float32)
        return {name: batch[name] for name in self.batch_spec(length)}

    def _label_values(self, vocab: VocabInfo) -> np.ndarray:
        """[number of labels]: the value of each label in the batch."""
        classes = label_classes(vocab)
        if self.task == "single":
            if len(classes) < 2:
                raise UserError(
                    f"data.label: all documents have the label {classes[0]!r}, but a "
                    "classifier needs two labels or more"
                )
            return np.arange(len(classes), dtype=np.int32)
        if self.task == "regression":
            return np.array([float(each) for each in vocab.labels], np.float32)
        if len(classes) > MAX_LABELS:
            raise UserError(
                f"objective.task multi has at most {MAX_LABELS} labels, not "
                f"{len(classes)}"
            )
        bit = {label_key(name): 1 << number for number, name in enumerate(classes)}
        sets = [single_labels([label]) for label in vocab.labels]
        bits = [sum(bit[label_key(name)] for name in names) for names in sets]
        return np.array(bits, np.int32)

    def constants(self, vocab: VocabInfo) -> dict[str, ConstantSpec]:
        return task_input.vector_constants(self, vocab)

    def needs(self, vocab: VocabInfo) -> networks.Needs:
        """Raises UserError: there are no labels."""
        size = 1 if self.task == "regression" else len(label_classes(vocab))
        head = heads.head_spec(self.head, size, hidden=self.head_width)
        return self.task_needs(
            {"label": head},
            features=self.features,
            feature_lstm_layers=self.lstm_layers,
            input_features=self.vectors_width,
        )

    def _logits(self, net: networks.BoundNetwork, batch: Batch) -> jax.Array:
        """[B, N] float32."""
        scored = batch.get("pooled")
        if self.format != "bart":
            group = task_input.with_vectors(self, batch)
            states, segment = net.features(group, scored=scored), batch["segment"]
        else:
            encoded = net.encode(input_group(batch, "encoder_"))
            states, segment = encoded.states, encoded.segment
            if scored is not None:
                decoder = input_group(batch, "decoder_")
                states = net.states(decoder, encoded=encoded, scored=scored)
        if scored is not None:
            return net.head("label", states[:, 0])
        return net.head("label", POOLS[self.pool](states, segment))

    def loss(
        self, net: networks.BoundNetwork, batch: Batch, key: jax.Array
    ) -> tuple[dict[str, Term], Any]:
        """Terms: label, labels or squared_error, and lm; accuracy (a metric)."""
        weight, terms = batch["label_weight"], {}
        if self.lm_coef:
            states = net.states(task_input.with_vectors(self, batch))
            row = jnp.arange(len(states))
            logits_BN = net.head("label", states[row, batch["pooled"][:, 0]])
            readout = net.readout(states)
            lm, _ = cross_entropy(readout, batch["target"], batch["weight"])
            terms["lm"] = lm._replace(coef=self.lm_coef)
        else:
            logits_BN = self._logits(net, batch)
        if self.task == "single":
            found = sentence_pairs.label_terms("label", logits_BN, batch)
            terms |= {"label": found["label"], "accuracy": found["label_accuracy"]}
        elif self.task == "regression":
            error = logits_BN[:, 0] - batch["label"] / self.label_scale
            total = jnp.sum(weight * error**2)
            terms["squared_error"] = Term(total, jnp.sum(weight))
        else:
            each = jnp.broadcast_to(weight[:, None], logits_BN.shape)
            term, correct = binary_cross_entropy(
                logits_BN, _bits(batch["label"], logits_BN.shape[1]), each
            )
            accuracy = Term(correct, term.weight, 0.0)
            terms |= {"labels": term, "accuracy": accuracy}
        return terms, ()

    def predictions(
        self, net: networks.BoundNetwork, batch: Batch
    ) -> dict[str, jax.Array]:
        """logits [B, N]; for regression, values in the labels' unit."""
        scale = self.label_scale if self.task == "regression" else 1.0
        return {"logits": scale * self._logits(net, batch)}


def _join_tails(example: Example) -> Example:
    """The example with its second span joined to the first unless it starts a part."""
    at = np.minimum(example.first_length, example.flags.shape[1] - 1)
    starts_part = example.flags[np.arange(len(at)), at] & PART > 0
    first_length = np.where(starts_part, example.first_length, example.length)
    return example._replace(first_length=first_length)


def _bits(number_B: jax.Array, size: int) -> jax.Array:
    """[B, `size`] int32: the bits of numbers, lowest first."""
    return (number_B[:, None] >> jnp.arange(size)[None]) & 1


def label_classes(vocab: VocabInfo) -> tuple[str, ...]:
    """The classes of the documents' labels, sorted.

    Raises:
      UserError: the documents have no labels.
    """
    classes = single_labels(vocab.labels)
    if not classes:
        raise UserError(
            "the objective needs labelled documents, but the text has no labels; "
            "data.label names their column"
        )
    return classes
