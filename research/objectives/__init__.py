"""Objectives: each hides part of a text and scores its recovery."""

import abc
import dataclasses
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np

from research.contract.batch import ArraySpec, Batch, ConstantSpec, Example, VocabInfo
from research.contract.errors import UserError, unknown
from research.contract.fields import check
from research.contract.parts import Folder
from research.data.documents import ArrayType
from research.data.options import DataOptions
from research.data.rows import TextSpec
from research.objectives.layout.row_notes import RowNotes
from research.objectives.layout.specials import Specials

if TYPE_CHECKING:  # this folder's modules import JAX; few commands load an objective
    import jax
    from etils import epath

    from research.data.tokenize.vocabulary import Vocabulary
    from research.networks import BoundNetwork, Needs
    from research.objectives.layout.prompt import Prompt
    from research.objectives.losses.cross_entropy import Term


class RatedPairs(NamedTuple):
    """Pairs of texts whose similarity people have rated."""

    objective: "Objective"  # predicts a number per pair with the same network
    data: DataOptions  # its data.test, data.fields and data.label name the pairs
    keys: Mapping[str, str]  # these three -> the config keys that the user gave


class Objective(abc.ABC):
    """The base of all objectives, with defaults for optional members.

    An objective is a frozen dataclass whose fields are its hyperparameters and config
    keys, with their legal values (`research.contract.fields`). It is the class named
    `Objective` of a module in the folder of its family. Fields must not have the name
    of a member of this class.
    """

    if TYPE_CHECKING:  # each objective is a dataclass
        __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]

    pattern: str
    """The attention that rank and reach of every batch give: "self" (each position
    attends only to itself), "full", "causal" or "general"."""

    min_length: int
    """The smallest data.length at which a row has text and a scored target."""

    divides_length: ClassVar[str] = ""
    """The field that must divide data.length unless it is 0; "": there is none."""

    shown_answers: ClassVar[Mapping[str, str]] = types.MappingProxyType({})
    """Terms of the loss for which the input shows some targets or makes them easier to
    guess -> why that is intended. The input must reveal nothing about the targets of
    other terms (tests/laws/test_losses.py)."""

    token_terms: tuple[str, ...] = ()
    """Terms of the loss that are -log p of a token of the text among all tokens: a run
    warns if they show that it learnt only token frequencies. A name is the last part of
    the term's, as in "forward/lm"."""

    supports_accumulation: bool = True
    """Whether micro-batches may be scored separately; False if examples interact."""

    caches_vectors: bool = False
    """Whether micro-batches may be encoded separately and their vectors compared
    together: the loss is `contrast` of `row_vectors` (`program.step.gradient`)."""

    reads_separators: bool = False
    """Whether the separator after a document is read and scored instead of an eos that
    the row adds."""

    appends_queries: bool = False
    """Whether inputs end with a query for each scored slot (`plm.query_stream`)."""

    vector_pool: str = "mean"
    """The vector of a text: the "mean" of all states, or that of the "class" token."""

    vector_head: str = ""
    """The head that maps these states to vectors of texts; "": none."""

    reads_backward: bool = False
    """Whether the network reads text from end to start."""

    reads_step: bool = False
    """Whether rows, or their loss, depend on the training step (`Example.step`), so
    that it matters which rows a step has."""

    reads_corpus: bool = False
    """Whether rows depend on the corpus of data.mixture that they are from, as on its
    language (`Example.corpus`)."""

    fills_masks: bool = False
    """Whether the state at a mask token predicts the token that it hides."""

    scores_every_token: ClassVar[bool] = False
    """Whether the loss has a term of every token of a row, so that a row may have no
    tokens beside its text's, as branches of words are (`knowledge.kbert`)."""

    pretrains_entities: ClassVar[bool] = False
    """Whether texts with linked entities also pretrain these (`knowledge.ernie_thu`,
    `knowledge.knowbert`): rows have `scored`, and its loss reads one stack."""

    takes_mask_rate: ClassVar[bool] = False
    """Whether its own field `rate`, not that of a part, is the fraction of masked
    tokens, as BERT's, so that a sweep's scale may set it."""

    array_types: ClassVar[Mapping[str, ArrayType]] = types.MappingProxyType({})
    """Arrays of `TextSpec.arrays` -> their types, except integers or labels of tokens
    or parts. A text whose format gives another type is rejected."""

    predicts: str = ""
    """What an evaluation predicts for each example: a kind in `research.predictions`;
    "": nothing."""

    task_format: ClassVar[str] = "bert"
    """The format of the rows of a task (`tasks.task_input`) that suits a network of one
    stack with this pretraining, unless its attention is causal."""

    written_format: ClassVar[str] = "bart"
    """The same for tasks whose output is text (`tasks.sequence_to_sequence`)."""

    huggingface_class: ClassVar[str] = ""
    """How names of Hugging Face's classes with its head end, as "ForMultipleChoice";
    "": there is none."""

    head_weights: ClassVar[Mapping[str, str]] = types.MappingProxyType({})
    """Heads that classify positions -> the batch's array with their weights; other
    heads classify texts, with the weights label_weight."""

    score_methods: ClassVar[Mapping[str, str]] = types.MappingProxyType({})
    """Method of scoring texts -> the meaning of its score (`contract.scores`); the
    first is the default. Empty: the objective cannot score texts."""

    row_length: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None
    """A function (first_length, length) -> the data.length [n] needed by examples of
    `length` [n] raw tokens, `first_length` [n] of them in the first part. With it
    `corrupt` accepts any length that holds the texts of a batch (data.length_buckets).
    None: all rows have the same length."""

    prompt: Callable[[Sequence[Sequence[int]], VocabInfo], "Prompt"] | None = None
    """A function (texts, vocab) -> the rows that the network reads before the first
    token that it generates. None: the objective cannot generate text."""

    fills_one_mask: ClassVar[bool] = False
    """Whether a prompt may have one mask, and what is written after the prompt stands
    for it."""

    write_order: str = "left_to_right"
    """The order in which it generates text, with samplers of this `order`
    (research/generation/samplers)."""

    lexicon_lines: str = ""
    """The lines that data.lexicon must have, for an error; "": it needs no lexicon."""

    num_drafts: int = 0
    """Number of tokens after the next one that each position also predicts, each with
    its own block (`Needs.future`)."""

    def __post_init__(self) -> None:
        """Raises ValueError: the value of a field is not legal."""
        check(self)

    @property
    def name(self) -> str:
        """The config's objective.name."""
        return type(self).__module__.rpartition(".")[-1]

    @property
    def field_values(self) -> dict[str, Any]:
        """Name -> value of the fields, which are the config keys."""
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}

    @property
    def family(self) -> str:
        """The folder that its module is in, such as "mlm" or "tasks"."""
        return type(self).__module__.split(".")[-2]

    def check_corpora(self, num: int) -> None:
        """Raises UserError: it cannot read `num` corpora of data.mixture."""
        return

    def check_files(self, files: Iterable[Path]) -> None:
        """Raises UserError: it cannot read one of these files of texts."""
        return

    def save_to(self, workdir: "epath.Path") -> None:
        """Writes what a use of the run needs beside config, vocabulary, parameters."""
        return

    @abc.abstractmethod
    def text_spec(self, length: int) -> TextSpec:
        """The text of one example, for a network input of `length` tokens."""

    def tokens_read(self, length: int) -> float:
        """Mean number of tokens of the text from one example to the next.

        It is larger than `length` if noise shortens the text.

        Raises:
          UserError: the number changes during training.
        """
        spec = self.text_spec(length)
        return spec.stride or spec.length

    def num_sentinels(self, length: int) -> int:
        """The most sentinels that a row of `length` tokens may need."""
        return 0

    @abc.abstractmethod
    def batch_spec(self, length: int) -> dict[str, ArraySpec]:
        """Specs of the batch's arrays, without `example`, which the pipeline adds."""

    @abc.abstractmethod
    def corrupt(
        self, example: Example, key: np.ndarray, vocab: VocabInfo, length: int
    ) -> dict[str, np.ndarray]:
        """Hides part of the text, in NumPy; each row is a pure function of its example.

        An empty row has segment 0 and weight 0 everywhere.

        Args:
          key: [B] uint64, a hash of (seed, epoch, example).

        Returns:
          The arrays of `batch_spec`, each with a leading B.
        """

    def notes(
        self, row: Mapping[str, np.ndarray], vocabulary: "Vocabulary"
    ) -> RowNotes:
        """What a row holds in addition to its tokens, as `palimpsest show` prints it.

        By default there is nothing.

        Args:
          row: the arrays of `corrupt` for one row, without the leading B.
        """
        return RowNotes()

    def needs(self, vocab: VocabInfo) -> "Needs":
        """What the loss needs from a network: by default one stack and its readout.

        Raises:
          UserError: the vocabulary lacks what the objective needs.
        """
        from research.networks import Needs  # imports Flax

        return Needs(pattern=self.pattern)

    @abc.abstractmethod
    def loss(
        self, net: "BoundNetwork", batch: Batch, key: "jax.Array"
    ) -> tuple[dict[str, "Term"], Any]:
        """Named terms (sums and weights, no means), and the recurrent carry or ()."""

    def row_vectors(self, net: "BoundNetwork", batch: Batch) -> Any:
        """A tree of arrays [B, ...], each row independent; with `caches_vectors`."""
        raise NotImplementedError

    def contrast(
        self, net: "BoundNetwork", vectors: Any, batch: Batch
    ) -> dict[str, "Term"]:
        """The terms of the vectors of a whole batch; with `caches_vectors`."""
        raise NotImplementedError

    def constants(self, vocab: VocabInfo) -> Mapping[str, ConstantSpec]:
        """Arrays that the loss reads and training never changes, as a frozen teacher's.

        Their name is that of the field with their source. The loss finds them in
        batch["constants"].
        """
        return {}

    def read_constants(
        self, group: Mapping[str, Any], constants: Mapping[str, Any]
    ) -> dict[str, Any]:
        """A network input [B, L] with what its tokens look up in the constants.

        An example is vectors of words. The loss calls this itself; other callers of the
        network must call it first.
        """
        return dict(group)

    def for_evaluation(self) -> "Objective":
        """The objective that scores evaluations.

        It lacks what is only for training, such as label smoothing. It is the objective
        itself if nothing differs. Its carry may differ.
        """
        return self

    @property
    def unwrapped(self) -> "Objective":
        """The objective whose readout and heads the network has.

        It is this objective, or the one that it wraps.
        """
        return self

    def with_fields(self, **fields: Any) -> Self:
        """A copy with these values of fields; the objective itself if none differs."""
        changed = dataclasses.replace(self, **fields)
        return self if changed == self else changed

    def rated_pairs(self, data: DataOptions) -> RatedPairs | None:
        """The pairs that evaluations of a run with this `data` also predict."""
        return None

    def evaluation_length(self, length: int) -> int:
        """The data.length of evaluations if that of training is `length`."""
        return length

    def predictions(self, net: "BoundNetwork", batch: Batch) -> dict[str, Any]:
        """The arrays [B, ...] of the predictions that `predicts` names.

        {} if it names nothing, or text.
        """
        return {}

    def outputs(self, net: "BoundNetwork", batch: Batch, key: "jax.Array") -> Any:
        """What the network alone, without a teacher, computes for a batch.

        These are the arrays of its predictions or, if there are none, the terms of the
        loss.
        """
        return self.predictions(net, batch) or self.loss(net, batch, key)[0]

    def token_predictor(self, net: "BoundNetwork") -> Any:
        """The bound network that predicts tokens: `net` or one of its networks."""
        return net

    def text_encoder(self, net: "BoundNetwork") -> Any:
        """The bound network whose states encode texts: `net` or one of its networks."""
        return net

    def specials(self, vocab: VocabInfo) -> Specials:
        """The special tokens around a text that is read alone, as in the rows.

        By default bos before it and, unless the network is causal, eos after it and
        after each of two texts; none if a state is the vector of a word.
        """
        if self.pattern == "self":
            return Specials()
        if self.pattern == "causal":
            return Specials((vocab.bos_id,))
        end = (vocab.eos_id,)
        return Specials((vocab.bos_id,), end, between=end, second_type=1)

    def word_table(self, params: Mapping[str, Any]) -> Any:
        """The vector of each token [V, D], if the parameters have a table of them."""
        return params.get("token", {}).get("embedding")

    def scored_part(self, method: str) -> tuple["Objective", str]:
        """The objective that a method of `score_methods` uses, and its name there.

        It is this objective or a part of it; its `score_rows` and loss are used.
        """
        return self, method

    def score_rows(
        self,
        example: Example,
        scored: np.ndarray,
        vocab: VocabInfo,
        length: int,
        method: str,
    ) -> Any:
        """Rows that hide only what is needed to score the tokens `scored` [B, R].

        Returns:
          `noise.scoring.ScoreRows`, for the loss of `for_scoring()`.
        """
        raise NotImplementedError(f"objective {self.name} has no score_methods")

    def for_scoring(self) -> "Objective":
        """The objective whose loss is -log p of a text.

        It has no smoothing, other tasks or carry. By default it is `for_evaluation()`.
        """
        return self.for_evaluation()

    @property
    def writers(self) -> dict[str, "Objective"]:
        """Name of the part -> an objective that generates text; "" is this one."""
        return {} if self.prompt is None else {"": self}


FOLDER = Folder(
    "research.objectives", "Objective", share_keys=False, named_by="objective.name"
)


def names() -> list[str]:
    """All objectives, sorted."""
    return FOLDER.names()


def objective_class(name: str) -> type:
    """The dataclass of the objective `name`.

    Raises:
      UserError: there is no objective of this name.
    """
    return FOLDER.part_class(name, "objective.name")


def make_objective(name: str, **fields: Any) -> Objective:
    """The objective `name` with the given fields, and defaults for the others.

    Raises:
      UserError: an unknown name or field, or a value that is not legal.
    """
    objective = objective_class(name)
    known = [field.name for field in dataclasses.fields(objective)]
    for field in fields:
        if field not in known:
            raise unknown(f"field of objective {name}", field, known)
    try:
        return objective(**fields)
    except (TypeError, ValueError) as error:
        raise UserError(f"objective {name}: {error}") from error
