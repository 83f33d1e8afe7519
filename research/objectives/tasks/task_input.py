"""Rows of a task's example in the format in which each architecture was fine-tuned.

The last item of an entry is the token whose state represents the row (pooled state).

bert     bos A eos B eos; token types 0 and 1; bos (google-research/bert,
         run_classifier.py; also ALBERT, ELECTRA, SpanBERT).
roberta  bos A eos eos B eos; one token type; bos (fairseq, models/roberta/
         hub_interface.py, encode).
xlnet    A eos B eos bos; token types 0, 1 and 2; bos (zihangdai/xlnet,
         classifier_utils.py, convert_single_example). Padding is on the right, which
         with relative positions and an attention mask equals padding on the left.
gpt      bos A mask B eos, causal; eos. The released code adds three tokens: start,
         delimiter, extract (openai/finetune-transformer-lm, train.py, transform_roc);
         bos, mask and eos replace them here.
plain    bos A eos B eos; one token type; bos, or the last eos (BabyLM's pipeline of
         masked models, finetune/trainer.py).
causal   bos A B, causal; the last token (the same pipeline for causal models).
bart     the encoder reads as roberta, the decoder the same shifted by one token; the
         decoder's last eos (fairseq, tasks/sentence_prediction.py; models/bart/
         model.py).
"""

# B batch, L length, P parts of a row

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from research import networks, objectives
from research.contract.batch import (
    CONSTANTS,
    FEATURE,
    Batch,
    ConstantSpec,
    Example,
    VocabInfo,
)
from research.networks.shared.embeddings import padded_rows
from research.objectives.layout import input_format
from research.objectives.layout.specials import Specials

FORMATS = ("bert", "roberta", "xlnet", "gpt", "plain", "causal", "bart")
ENCODER_FORMATS = ("bert", "roberta", "xlnet", "plain")
POOLED_LAST = ("xlnet", "gpt", "causal", "bart")
"""Formats in which the last token's state represents the row, not the first's."""
VECTORS = ("a file of word vectors", "a run of word vectors", "random", "random:N")
"""What `vectors` of a task may name.

A file in a format of `research.files.vector_files`; a run, or an .npz file, with one
row of token/embedding per entry of the vocabulary; random vectors with seed N. The
network reads the vector of each token in addition to it (`batch.FEATURE`), and training
never changes the vectors.
"""
LONG_PARTS = 4096
"""Raw tokens that a row of several texts may have in addition to those laid out.

So a text that is too long loses its end, and no later text is lost.
"""


class Task(objectives.Objective):
    """The base of objectives for tasks, with a field `format`; the label is hidden.

    Attributes:
      num_parts: number of parts of text that a row needs.
      vectors: one of `VECTORS`, or "", as for tasks without such a field.
      head_reads: what its head reads, see `heads`; "": its field `head`, if any, is
        none of `heads.HEADS`.
    """

    format: str
    num_parts = 1
    vectors = ""
    head_reads: ClassVar[str] = ""

    @property
    def pattern(self) -> str:
        return "causal" if self.format in ("gpt", "causal") else "full"

    @property
    def min_length(self) -> int:
        """The specials of a row and a token."""
        return self.num_specials(self.num_parts) + 1

    def num_specials(self, num_parts: int) -> int:
        """The number of special tokens of a row with 1 or 2 parts."""
        return num_specials(self.format, num_parts)

    def specials(self, vocab: VocabInfo) -> Specials:
        """The specials of a row of one part or of two."""
        end = (vocab.eos_id,)
        between = {"roberta": end * 2, "bart": end * 2, "gpt": (vocab.mask_id,)}
        second_type = int(num_token_types(self.format) > 1)
        pair: dict[str, Any] = {
            "between": between.get(self.format, end),
            "second_type": second_type,
        }
        if self.format == "causal":
            return Specials((vocab.bos_id,))
        if self.format == "xlnet":
            return Specials((), (vocab.eos_id, vocab.bos_id), last_type=2, **pair)
        return Specials((vocab.bos_id,), end, **pair)

    def task_needs(
        self, heads: dict[str, networks.HeadSpec], **features: Any
    ) -> networks.Needs:
        """The needs of the format with these heads and `features` of `Needs`."""
        return networks.Needs(
            pattern=self.pattern,
            stacks="encoder_decoder" if self.format == "bart" else "one",
            heads=heads,
            token_types=num_token_types(self.format),
            **features,
        )

    def read_constants(
        self, group: Mapping[str, Any], constants: Mapping[str, Any]
    ) -> dict[str, Any]:
        return with_vectors(self, {**group, **constants})

    def lay_out(
        self,
        example: Example,
        begin: np.ndarray,
        size: np.ndarray,
        vocab: VocabInfo,
        length: int,
    ) -> tuple["TaskInput", dict[str, np.ndarray]]:
        """The rows, see the function `lay_out`, and their network inputs."""
        laid = lay_out(example, begin, size, vocab, length, self.format)
        return laid, network_input(laid.text, self.format)


def check_vectors(task: Any) -> None:
    """Raises ValueError: the fields for word vectors do not go together."""
    if bool(task.vectors) != (task.vectors_width > 0):
        raise ValueError(
            f"vectors_width={task.vectors_width} must be the width of vectors, "
            f"{', '.join(VECTORS)}, and 0 without; got vectors={task.vectors!r}"
        )
    if task.vectors and task.format == "bart":
        raise ValueError("vectors must be empty with format bart")
    features = getattr(task, "features", "")
    if features in networks.OF_VECTORS and not task.vectors:
        raise ValueError(
            f"features {features} need vectors; set vectors and vectors_width"
        )


def vector_constants(task: Any, vocab: VocabInfo) -> dict[str, ConstantSpec]:
    """The table of vectors that a task names, if any."""
    if not task.vectors:
        return {}
    shape = (padded_rows(vocab.size), task.vectors_width)
    table = jax.ShapeDtypeStruct(shape, np.float32)
    spelling = vocab.spelling or ()
    arrays = {"token": {"embedding": table}}
    return {"vectors": ConstantSpec(task.vectors, arrays, spelling)}


def with_vectors(task: Any, batch: Batch, prefix: str = "") -> dict[str, Any]:
    """The batch with token vectors in one network input, if the task has any.

    `prefix` is the prefix of the input's arrays.
    """
    if not task.vectors:
        return batch
    table = batch[CONSTANTS]["vectors"]["token"]["embedding"]
    vector_BLF = jnp.take(table, batch[f"{prefix}token"], axis=0, mode="clip")
    is_text = (batch[f"{prefix}segment"] > 0)[..., None]
    return batch | {prefix + FEATURE: jnp.where(is_text, vector_BLF, 0.0)}


class TaskInput(NamedTuple):
    """Rows with special tokens, and the positions of parts and of the pooled state."""

    text: input_format.Text
    begin: np.ndarray  # [B, 2] int64: where each part's text begins
    pooled: np.ndarray  # [B] int64: the position whose state represents the row


def num_specials(format: str, num_parts: int) -> int:
    """The number of special tokens of a row with 1 or 2 parts.

    With format t5 there is an eos after each part (`sequence_to_sequence`).
    """
    if format == "causal":
        return 1
    if format == "t5":
        return num_parts
    return 2 * num_parts if format in ("roberta", "bart") else num_parts + 1


def num_token_types(format: str) -> int:
    """The number of token types of a format."""
    return {"bert": 2, "xlnet": 3}.get(format, 1)


def lay_out(
    example: Example,
    begin: np.ndarray,
    size: np.ndarray,
    vocab: VocabInfo,
    length: int,
    format: str,
) -> TaskInput:
    """The rows of one or two parts; a row without text is empty.

    Args:
      begin, size: [B, 2], the raw tokens of each part; size 0: no such part. With
        `num_specials` they must fit in a row of `length`.
    """
    prefixes = {
        "roberta": (vocab.bos_id, vocab.eos_id),
        "bart": (vocab.bos_id, vocab.eos_id),
        "xlnet": (None, None),
    }.get(format, (vocab.bos_id, None))
    ends = format != "causal"
    text = input_format.concatenate_spans(
        example, begin, size, vocab, length, prefixes=prefixes, ends=ends
    )
    row, first = np.arange(len(size)), size[:, 0] > 0
    before = [int(prefix is not None) for prefix in prefixes]
    start = np.where(first, size[:, 0] + before[0] + ends, 0)
    at = np.stack([np.full(len(size), before[0]), start + before[1]], axis=1)
    if format == "gpt":
        both = first & (size[:, 1] > 0)
        text.token[row[both], start[both] - 1] = vocab.mask_id
    elif format == "xlnet":
        here = text.length > 0
        text.token[row[here], text.length[here]] = vocab.bos_id
        text.token_type[row[here], text.length[here]] = 2
        text = text._replace(length=text.length + here)
    if num_token_types(format) == 1:
        text.token_type[:] = 0
    last = np.maximum(text.length - 1, 0)
    return TaskInput(text, at, last * (format in POOLED_LAST))


def network_input(text: input_format.Text, format: str) -> dict[str, np.ndarray]:
    """The arrays of the network's inputs; for bart `encoder_*` and `decoder_*`."""
    if format == "bart":
        position = np.arange(text.token.shape[1])
        source = np.where(position == 0, text.length[:, None], position) - 1
        shifted = np.take_along_axis(text.token, np.maximum(source, 0), axis=1)
        here = position < text.length[:, None]
        shifted = np.where(here, shifted, text.token)  # the last eos comes first
        return input_format.full_input(
            text.token, text.length, "encoder_"
        ) | input_format.causal_input(shifted, text.length, "decoder_")
    is_causal = format in ("gpt", "causal")
    make = input_format.causal_input if is_causal else input_format.full_input
    return make(text.token, text.length) | {"token_type": text.token_type}


def two_parts(
    example: Example, room: int, separators: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """begin, size [B, 2] of the first part and of all others, in at most `room` tokens.

    Rows from an index that was built for as many tokens are not truncated.

    Args:
      separators: number of tokens by which the room is smaller for two parts.
    """
    has_two = example.first_length < example.length
    num_raw = np.minimum(example.length, room - separators * has_two).astype(np.int64)
    first = np.minimum(example.first_length, num_raw)
    begin = np.stack([np.zeros_like(first), first], axis=1)
    return begin, np.stack([first, num_raw - first], axis=1)
