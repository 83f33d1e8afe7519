"""Vectors of sentences by contrast within the batch: SimCSE, and pairs and triples.

Gao et al. 2021 (princeton-nlp/SimCSE, simcse/models.py): a text should be nearer to its
positive than to those of all other rows. Without labels the positive is the text itself
with another dropout mask; with labels it is a second text, and a third one may be a
hard negative (entailment and contradiction of NLI). The loss of pairs and triples is
sentence-transformers' MultipleNegativesRankingLoss, with `widths` its MatryoshkaLoss
(Kusupati et al. 2022).
"""

# B batch (of all devices), C candidates, D width, L length of a text

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from research import networks, objectives
from research.contract.batch import (
    PART,
    ArraySpec,
    Batch,
    Example,
    VocabInfo,
    input_group,
    input_specs,
)
from research.contract.errors import UserError
from research.contract.fields import choice, free_text, number
from research.data.options import DataOptions
from research.data.rows import TextSpec
from research.objectives.layout.mean_state import mean_state
from research.objectives.losses import contrastive
from research.objectives.losses.cross_entropy import Term, with_accuracy
from research.objectives.tasks import task_input

PREFIXES = ("", "positive_", "negative_")
"""Prefixes of the arrays of each text of a row."""


@dataclass(frozen=True)
class Objective(task_input.Task):
    """Reads one to three texts per row, each separately.

    A row that lacks one has weight 0. Candidates of a text are the positives of all
    rows and all hard negatives. Texts that occur twice in a batch count as negatives
    of each other, as in the released code.

    With two or three texts, an evaluation ranks all second texts of the split for each
    first one.
    """

    texts: int = number(1, least=1, most=3)  # per row. 1: the text, whose positive is
    # itself with another dropout; 2: also a positive; 3: also a hard negative
    format: str = choice("bert", ("bert", "roberta", "xlnet", "plain", "causal"))  # of
    # each text
    pool: str = choice("class", ("class", "mean"))  # the vector: the state of the
    # format's class token, or the mean of all states, see `encode`
    head: str = choice("none", ("none", "tanh"))  # tanh: a dense layer with tanh that
    # only training has (SimCSE without labels, mlp_only_train)
    temperature: float = number(0.05, above=0)  # divides the cosines; 1 / scale
    symmetric: bool = False  # whether each positive also has to find its text
    widths: tuple[int, ...] = ()  # truncated widths whose losses are added to that of
    # whole vectors (Matryoshka); (): only whole vectors
    similarity: str = free_text("", source="file")  # a table of pairs of texts with
    # human similarity ratings (STS-B); evaluations report the correlation of the
    # cosines with them. "": none
    similarity_fields: str = free_text("sentence1,sentence2")  # its columns of the two
    # texts, as data.fields
    similarity_label: str = free_text("score")  # its column of ratings

    supports_accumulation = False
    caches_vectors = True

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "widths", tuple(self.widths))
        if not self.similarity_label:
            raise ValueError("similarity_label must be a column, or its number from 0")
        if not all(type(width) is int and width > 0 for width in self.widths):
            raise ValueError(
                f"widths must be whole numbers above 0, got {list(self.widths)}"
            )

    @property
    def predicts(self) -> str:
        return "text_retrieval" if self.texts > 1 else ""

    @property
    def vector_pool(self) -> str:
        return self.pool

    @property
    def shown_answers(self) -> dict[str, str]:
        return {"contrast": "texts that belong together are read: none is hidden"}

    def text_spec(self, length: int) -> TextSpec:
        room = length - self.num_specials(1)
        most = {"max_first": room} if self.texts > 1 else {}
        more = task_input.LONG_PARTS if self.texts > 2 else 0
        return TextSpec("parts", self.texts * room + more, **most)

    def batch_spec(self, length: int) -> dict[str, ArraySpec]:
        specs = {"vector_weight": ArraySpec((), np.float32)}
        for prefix in PREFIXES[: self.texts]:
            specs |= input_specs(length, prefix)
            if self.pool == "class":
                specs[f"{prefix}pooled"] = ArraySpec((1,))
        return specs

    def corrupt(
        self, example: Example, key: np.ndarray, vocab: VocabInfo, length: int
    ) -> dict[str, np.ndarray]:
        """Lays out the texts; texts that are too long are truncated."""
        begin, size = self._parts(example)
        size = np.minimum(size, length - self.num_specials(1))
        weight = (size > 0).all(axis=1)
        batch = {"vector_weight": weight.astype(np.float32)}
        for part, prefix in enumerate(PREFIXES[: self.texts]):
            first, count = (
                np.stack([array[:, part], 0 * array[:, part]], axis=1)
                for array in (begin, size)
            )
            laid, arrays = self.lay_out(example, first, count, vocab, length)
            arrays["pooled"] = laid.pooled[:, None].astype(np.int32)
            batch |= {f"{prefix}{name}": array for name, array in arrays.items()}
        return {name: batch[name] for name in self.batch_spec(length)}

    def _parts(self, example: Example) -> tuple[np.ndarray, np.ndarray]:
        """begin and size [B, texts] of the first parts among the raw tokens."""
        column = np.arange(example.flags.shape[1])
        inside = column < example.length[:, None]
        starts = (example.flags & PART > 0) & inside
        starts |= (column == 0) & inside
        order = np.cumsum(starts, axis=1) * inside  # 1 of the first part, 2, ...
        size = np.stack(
            [(order == n + 1).sum(axis=1) for n in range(self.texts)], axis=1
        )
        begin = np.stack(
            [(order == n + 1).argmax(axis=1) for n in range(self.texts)], axis=1
        )
        return begin, size

    def needs(self, vocab: VocabInfo) -> networks.Needs:
        heads = {"vector": networks.HeadSpec(0, "none")} if self.head == "tanh" else {}
        return self.task_needs(heads)

    def _vector(
        self, net: networks.BoundNetwork, batch: Batch, prefix: str
    ) -> jax.Array:
        """[B, D]: one vector of each row's text, as `encode` makes it."""
        group = input_group(batch, prefix)
        if self.pool == "class":
            vector = net.states(group, scored=batch[f"{prefix}pooled"])[:, 0]
        else:
            vector = mean_state(net.states(group), batch[f"{prefix}segment"])
        return vector

    def loss(
        self, net: networks.BoundNetwork, batch: Batch, key: jax.Array
    ) -> tuple[dict[str, Term], Any]:
        """See `contrast`."""
        return self.contrast(net, self.row_vectors(net, batch), batch), ()

    def row_vectors(self, net: networks.BoundNetwork, batch: Batch) -> list[jax.Array]:
        """[B, D] float32 each: vectors of the texts of a row, or of its text twice."""
        prefixes = PREFIXES[: self.texts]
        if self.texts == 1:
            prefixes = ("", "")  # dropout differs between the calls
        vectors = [self._vector(net, batch, prefix) for prefix in prefixes]
        if self.head == "tanh":
            vectors = [jnp.tanh(net.head("vector", vector)) for vector in vectors]
        return [vector.astype(jnp.float32) for vector in vectors]

    def contrast(
        self, net: networks.BoundNetwork, vectors: list[jax.Array], batch: Batch
    ) -> dict[str, Term]:
        """Terms: contrast; how often the positive is nearest (a metric)."""
        weight = batch["vector_weight"]
        whole = vectors[0].shape[-1]
        if max(self.widths, default=0) > whole:
            raise UserError(
                f"objective.widths={list(self.widths)} must be at most {whole}, the "
                "width of the vectors"
            )
        terms = []
        for width in self.widths or (whole,):
            query, answer, *negatives = (vector[:, :width] for vector in vectors)
            terms.append(
                contrastive.in_batch(
                    query,
                    answer,
                    weight,
                    negatives,
                    temperature=self.temperature,
                    symmetric=self.symmetric,
                )
            )
        total = jnp.sum(jnp.stack([term.total for term, _ in terms]))
        term, correct = terms[0][0]._replace(total=total), terms[0][1]
        return with_accuracy("contrast", term, correct)

    def predictions(
        self, net: networks.BoundNetwork, batch: Batch
    ) -> dict[str, jax.Array]:
        """first, second [B, D] float32, the second's token [B, L], weight [B]."""
        if not self.predicts:
            return {}
        found = {
            name: self._vector(net, batch, prefix).astype(jnp.float32)
            for name, prefix in zip(("first", "second"), PREFIXES, strict=False)
        }
        return found | {
            "token": batch["positive_token"],
            "weight": batch["vector_weight"],
        }

    def rated_pairs(self, data: DataOptions) -> objectives.RatedPairs | None:
        if not self.similarity:
            return None
        pairs = DataOptions(
            test=self.similarity,
            eval_split="test",
            fields=self.similarity_fields,
            label=self.similarity_label,
            encoding=data.encoding,
            length=data.length,
            cache_dir=data.cache_dir,
        )
        cosine = Cosine(**self.field_values | {"texts": 2})
        return objectives.RatedPairs(cosine, pairs, RATED_KEYS)


RATED_KEYS = {
    "data.test": "objective.similarity",
    "data.fields": "objective.similarity_fields",
    "data.label": "objective.similarity_label",
}
"""Keys of `RatedPairs.data` -> the run's."""


@dataclass(frozen=True)
class Cosine(Objective):
    """The cosine of a pair of texts; nothing is scored."""

    @property
    def predicts(self) -> str:
        return "number"

    def loss(
        self, net: networks.BoundNetwork, batch: Batch, key: jax.Array
    ) -> tuple[dict[str, Term], Any]:
        return {}, ()

    def predictions(
        self, net: networks.BoundNetwork, batch: Batch
    ) -> dict[str, jax.Array]:
        """logits [B, 1]: the cosines."""
        first, second = (
            contrastive.unit(self._vector(net, batch, prefix).astype(jnp.float32))
            for prefix in PREFIXES[:2]
        )
        return {"logits": jnp.sum(first * second, axis=1, keepdims=True)}
