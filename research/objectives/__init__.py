"""Objectives: each hides part of a text and scores its recovery."""

import abc
import dataclasses
import types
from collections.abc import Callable, Mapping, Sequence
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

    from research.data.tokenize.vocabulary import Vocabulary
    from research.networks import BoundNetwork, Needs
    from research.objectives.layout.prompt import Prompt
    from research.objectives.losses.cross_entropy import Term


class RatedPairs(NamedTuple):
    """Pairs of texts whose similarity people have rated."""

    objective: "Objective"  # that predicts a number of each pair by the same network
    data: DataOptions  # whose data.test, data.fields and data.label name them
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
    """What rank and reach of every batch satisfy: "self" (each position attends to
    itself alone), "full", "causal" or "general"."""

    min_length: int
    """The least data.length at which a row has text and something that is scored."""

    divides_length: ClassVar[str] = ""
    """The field that has to divide data.length, unless it is 0; "": there is none."""

    shown_answers: ClassVar[Mapping[str, str]] = types.MappingProxyType({})
    """Terms of the loss some of whose targets the input shows or makes easier to guess
    -> why that is intended. The input must tell nothing about targets of other terms
    (tests/laws/test_losses.py)."""

    token_terms: tuple[str, ...] = ()
    """Terms of the loss that are -log p of a token of the text among all tokens, by
    which a run is told that it learnt no more than how often tokens occur; the last
    words of their names, as in "forward/lm"."""

    supports_accumulation: bool = True
    """Whether micro-batches may be scored separately; False if examples interact."""

    caches_vectors: bool = False
    """Whether micro-batches may be read separately, and their vectors compared at once:
    the loss is `contrast` of `row_vectors` (`program.step.gradient`)."""

    reads_separators: bool = False
    """Whether the separator after a document is read and scored, in place of an eos
    that the row would add."""

    appends_queries: bool = False
    """Whether inputs end with a query for each scored slot (`plm.query_stream`)."""

    vector_pool: str = "mean"
    """What vectors of texts are: the "mean" of all states, or the "class" token's."""

    vector_head: str = ""
    """The head that makes vectors of texts of these states; "": none."""

    reads_backward: bool = False
    """Whether the network reads text from its end."""

    reads_step: bool = False
    """Whether rows, or what the loss makes of them, depend on the training step
    (`Example.step`), so that it matters which rows a step has."""

    reads_corpus: bool = False
    """Whether rows depend on which corpus of data.mixture they are from, as on its
    language (`Example.corpus`)."""

    fills_masks: bool = False
    """Whether the state at a mask token predicts the token that it hides."""

    takes_mask_rate: ClassVar[bool] = False
    """Whether its field `rate` is of masked tokens, as BERT's, so that a sweep's scale
    may set it; not that of a part."""

    array_types: ClassVar[Mapping[str, ArrayType]] = types.MappingProxyType({})
    """Arrays of `TextSpec.arrays` -> their types, but for whole numbers or labels of
    tokens or parts. A text whose format gives another type is refused."""

    predicts: str = ""
    """What an evaluation predicts for each example, one of the kinds in
    `research.predictions`; "": nothing."""

    head_weights: ClassVar[Mapping[str, str]] = types.MappingProxyType({})
    """Heads of classes at positions -> the batch's array with the weights of these;
    other heads are of texts, whose weights are label_weight."""

    score_methods: ClassVar[Mapping[str, str]] = types.MappingProxyType({})
    """Method of scoring texts -> what its score is (`noise.scoring`); the first is
    the default. Empty: the objective cannot score texts."""

    row_length: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None
    """A function (first_length, length) -> the data.length [n] that examples need which
    have `length` [n] raw tokens, `first_length` [n] of them in the first part. With it
    `corrupt` accepts any length that holds the texts of a batch (data.length_buckets).
    None: all rows have one length."""

    prompt: Callable[[Sequence[Sequence[int]], VocabInfo], "Prompt"] | None = None
    """A function (texts, vocab) -> the rows that the network reads before the first
    token that it generates. None: the objective cannot generate text."""

    write_order: str = "left_to_right"
    """The order in which it generates text, by samplers of this `order`
    (research/generation/samplers)."""

    lexicon_lines: str = ""
    """The lines that data.lexicon must have, for an error; "": it needs none."""

    num_drafts: int = 0
    """Tokens after the next one that each position predicts, too, by blocks of their
    own (`Needs.future`)."""

    def __post_init__(self) -> None:
        """Raises ValueError: a field has a value that is not legal."""
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
        """Raises UserError: it does not read `num` corpora of data.mixture."""
        return

    @abc.abstractmethod
    def text_spec(self, length: int) -> TextSpec:
        """The text of one example, for a network input of `length` tokens."""

    def tokens_read(self, length: int) -> float:
        """Tokens of the text from one example to the next, in the mean over examples.

        These are more than `length` where noise makes a text shorter.

        Raises:
          UserError: it is another number at other steps.
        """
        spec = self.text_spec(length)
        return spec.stride or spec.length

    def num_sentinels(self, length: int) -> int:
        """The most sentinels that a row may need, for an input of `length` tokens."""
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
        """What a row holds beside its tokens, as `palimpsest show` prints it.

        By default that is nothing.

        Args:
          row: the arrays of `corrupt`, of one row, without the leading B.
        """
        return RowNotes()

    def needs(self, vocab: VocabInfo) -> "Needs":
        """What the loss needs of a network: by default one stack and its readout.

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
        """A tree of arrays [B, ...], each row's by itself; with `caches_vectors`."""
        raise NotImplementedError

    def contrast(
        self, net: "BoundNetwork", vectors: Any, batch: Batch
    ) -> dict[str, "Term"]:
        """The terms of the vectors of a whole batch; with `caches_vectors`."""
        raise NotImplementedError

    def constants(self, vocab: VocabInfo) -> Mapping[str, ConstantSpec]:
        """Arrays that the loss reads and training never changes.

        A frozen teacher's are such. Their name is that of the field with their source;
        the loss finds them in batch["constants"].
        """
        return {}

    def read_constants(
        self, group: Mapping[str, Any], constants: Mapping[str, Any]
    ) -> dict[str, Any]:
        """A network input [B, L], with what the loss looks up for its tokens.

        It looks them up in the constants, such as vectors of words. The loss calls this
        itself; other callers of the network must call it first.
        """
        return dict(group)

    def for_evaluation(self) -> "Objective":
        """The objective that scores evaluations.

        It lacks what training alone adds to a loss, such as label smoothing, and is
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
        """A copy with these values of fields; itself if it has them."""
        changed = dataclasses.replace(self, **fields)
        return self if changed == self else changed

    def rated_pairs(self, data: DataOptions) -> RatedPairs | None:
        """The pairs that evaluations of a run with this `data` also predict."""
        return None

    def evaluation_length(self, length: int) -> int:
        """The data.length of evaluations, if training has `length`."""
        return length

    def predictions(self, net: "BoundNetwork", batch: Batch) -> dict[str, Any]:
        """The arrays [B, ...] of the predictions that `predicts` names.

        {} if it names nothing or text.
        """
        return {}

    def outputs(self, net: "BoundNetwork", batch: Batch, key: "jax.Array") -> Any:
        """What the network alone, without a teacher, computes of a batch.

        That is the arrays of its predictions, or the terms of the loss where these are
        none.
        """
        return self.predictions(net, batch) or self.loss(net, batch, key)[0]

    def token_predictor(self, net: "BoundNetwork") -> Any:
        """The bound network that predicts tokens: `net` or one of its networks."""
        return net

    def text_encoder(self, net: "BoundNetwork") -> Any:
        """The bound network whose states encode texts: `net` or one of its networks."""
        return net

    def specials(self, vocab: VocabInfo) -> Specials:
        """The special tokens with which a text is read alone, as in the rows.

        By default bos before it, and eos after it unless the network is causal, as
        after each of two; none where a state is the vector of a word.
        """
        if self.pattern == "self":
            return Specials()
        if self.pattern == "causal":
            return Specials((vocab.bos_id,))
        end = (vocab.eos_id,)
        return Specials((vocab.bos_id,), end, between=end, second_type=1)

    def word_table(self, params: Mapping[str, Any]) -> Any:
        """The vector of each token [V, D], if the parameters have one for each."""
        return params.get("token", {}).get("embedding")

    def scored_part(self, method: str) -> tuple["Objective", str]:
        """The objective that a method of `score_methods` uses, and its name there.

        It is this one or a part of it; its `score_rows` and loss are used.
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
        """Rows that hide only what scoring the tokens `scored` [B, R] needs.

        Returns:
          `noise.scoring.ScoreRows`, for the loss of `for_scoring()`.
        """
        raise NotImplementedError(f"objective {self.name} has no score_methods")

    def for_scoring(self) -> "Objective":
        """The objective whose loss is -log p of a text.

        It has no smoothing, other tasks or carry: by default it is that of evaluations.
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
