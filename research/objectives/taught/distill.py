"""Knowledge distillation: any objective, with a frozen teacher in addition to labels.

Its fields give the published methods: DistilBERT (Sanh et al. 2019), TinyBERT (Jiao et
al. 2020), patient distillation (Sun et al. 2019), MiniLM and MiniLMv2 (Wang et al.
2020, 2021).
"""

# B batch, L length, K scored positions, C classes, N layers, M pairs of layers

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from research import networks, objectives
from research.contract.batch import (
    CONSTANTS,
    Batch,
    ConstantSpec,
    VocabInfo,
    attention_mask,
    input_group,
)
from research.contract.errors import UserError
from research.contract.fields import choice, number
from research.networks.transformer.transformer import Network as Transformer
from research.objectives.losses.cross_entropy import Term
from research.objectives.taught import distillation, taught
from research.objectives.taught.recorded_calls import RecordedNetwork, StackCall
from research.predictions import prediction_kind

RELATIONS = {"value": ("value",), "all": ("query", "key", "value")}
"""Choice of relations -> the vectors whose relations are compared."""

SOFT_TERMS = ("soft", "soft_class")
"""The terms of the divergences of tokens and of classes."""

NO_LAYER = -1
"""In `layer_map`: the student's layer learns from no layer."""


@dataclass(frozen=True)
class Objective(taught.Taught):
    """Student and teacher read the same arrays, those of the base objective.

    The loss is the sum of these terms, each times the field of its name:

    hard       the base objective's own terms.
    soft       temperature^2 KL(teacher || student) of tokens and of classes, wherever
               the base objective predicts them; a sum over labels if a text may have
               several.
    cosine     1 - cos of the last states, at all positions of the text.
    hidden     squared difference of states, a mean over elements.
    attention  difference of attention, of equal numbers of heads.
    relation   KL of relations between positions (MiniLM), of any width.

    hidden, attention and relation are sums over the layers of `layer_map`. States are
    those of the base objective's first call of the network: for infoword those of the
    text, not of the n-gram. The teacher has no dropout. Terms with coefficient 0 are
    not computed, except hard: its terms are then metrics. If soft is 0 as well, neither
    they nor the readout exist.
    """

    hard: float = number(1.0, least=0)
    soft: float = number(1.0, least=0)
    temperature: float = number(1.0, above=0)  # of the term soft
    soft_at: str = choice("scored", ("scored", "text"))  # positions at which tokens are
    # compared; text: all, including specials (DistilBERT)
    cosine: float = number(0.0, least=0)
    hidden: float = number(0.0, least=0)
    hidden_at: str = choice("text", ("text", "first"))  # first: first of each row (PKD)
    hidden_error: str = choice("plain", ("plain", "normalized"))  # normalized:
    # states are scaled to length 1 (PKD)
    hidden_from: str = choice("embeddings", ("embeddings", "blocks"))  # embeddings:
    # the input of the first block is also compared (TinyBERT)
    projection: str = choice("dense", ("dense", "none"))  # of the student's states to
    # the teacher's width: one dense layer for all of them (TinyBERT); none: one width
    attention: float = number(0.0, least=0)
    attention_error: str = choice("logits", ("logits", "divergence"))  # logits: squared
    # difference (TinyBERT); divergence: KL of probabilities (MiniLM)
    relation: float = number(0.0, least=0)
    relations: str = choice("all", tuple(RELATIONS))  # value (MiniLM); all: of queries,
    # of keys and of values (MiniLMv2)
    relation_heads: int = number(0, least=0)  # number of heads into which the vectors
    # of all heads are cut; 0: the teacher's number, which the student also has
    layer_map: tuple[int, ...] = ()  # for each layer of the student the teacher's
    # layer, from 0, that it learns from, -1: none; (): every nth, the last from the
    # last (TinyBERT)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "layer_map", tuple(self.layer_map))
        if not all(type(n) is int and n >= NO_LAYER for n in self.layer_map):
            raise ValueError(
                "layer_map must have whole numbers from 0, or -1 for none, not "
                f"{[*self.layer_map]}"
            )
        if self.layer_map and {*self.layer_map} == {NO_LAYER}:
            raise ValueError("layer_map must name a layer of the teacher")
        names = ("hard", "soft", "cosine", "hidden", "attention", "relation")
        if not any(getattr(self, name) for name in names):
            raise ValueError(f"one of {', '.join(names)} must be above 0")

    @property
    def shown_answers(self) -> dict[str, str]:
        """Those of the base objective, whose target weights also apply to `soft`."""
        shown = super().shown_answers
        return shown | {name: why for why in shown.values() for name in SOFT_TERMS}

    @property
    def _predicts(self) -> bool:
        """Whether the student has its own readout or heads."""
        return self.hard > 0 or self.soft > 0

    @property
    def _compares_layers(self) -> bool:
        return self.hidden > 0 or self.attention > 0 or self.relation > 0

    @property
    def unwrapped(self) -> objectives.Objective:
        return super().unwrapped if self._predicts else self

    @property
    def predicts(self) -> str:
        return self._base.predicts if self._predicts else ""

    @property
    def fills_masks(self) -> bool:
        return self._predicts and super().fills_masks

    @property
    def score_methods(self) -> dict[str, str]:
        return super().score_methods if self._predicts else {}

    @property
    def writers(self) -> dict[str, objectives.Objective]:
        return super().writers if self._predicts else {}

    def predictions(self, net: networks.BoundNetwork, batch: Batch) -> dict[str, Any]:
        return self._base.predictions(net, batch) if self._predicts else {}

    def outputs(self, net: networks.BoundNetwork, batch: Batch, key: jax.Array) -> Any:
        """The outputs; for a student that predicts nothing, the states of its text."""
        if self._predicts:
            return super().outputs(net, batch, key)
        return self._states(net, batch)

    def _states(self, net: networks.BoundNetwork, batch: Batch) -> jax.Array:
        return net.states(input_group(self._base.read_constants(batch, {})))

    def needs(self, vocab: VocabInfo) -> networks.Needs:
        """Raises UserError: the base objective's network cannot be distilled."""
        needs = self._teacher_needs(vocab)
        if not self._projects:
            return needs
        head = networks.HeadSpec(self._teacher.width, "none")
        return dataclasses.replace(needs, heads={**needs.heads, "hidden": head})

    @property
    def _projects(self) -> bool:
        return self.hidden > 0 and self.projection == "dense"

    def _teacher_needs(self, vocab: VocabInfo) -> networks.Needs:
        needs = self._base.needs(vocab)
        lacking = {
            f"a network with {needs.stacks}": needs.stacks
            in ("two_directions", "generator_discriminator"),
            "mems": needs.mems,
            "features of several layers": networks.Ability.FEATURES in needs.abilities,
            "queries, which are no text; set objective.soft_at=scored and the other "
            "terms to 0": needs.queries
            and (self._compares_layers or self._reads_all_states),
            "neither hard nor soft, and an encoder and a decoder": needs.stacks != "one"
            and not self._predicts,
        }
        for what, is_needed in lacking.items():
            if is_needed:
                raise UserError(
                    f"objective.base_objective {self.base_objective} is not distilled "
                    f"with {what}"
                )
        return dataclasses.replace(needs, layers=self._compares_layers)

    @property
    def _reads_all_states(self) -> bool:
        """Whether states of all positions are compared."""
        return self.cosine > 0 or (self.soft > 0 and self.soft_at == "text")

    def constants(self, vocab: VocabInfo) -> dict[str, ConstantSpec]:
        """The teacher's parameters that are read, and the base objective's constants.

        Raises:
          UserError: the teacher's network does not serve the base objective.
        """
        return self._teacher_constants(self._teacher_needs(vocab), vocab, self._run)

    def loss(
        self, net: networks.BoundNetwork, batch: Batch, key: jax.Array
    ) -> tuple[dict[str, Term], Any]:
        """Terms: the base objective's, soft, cosine, hidden, attention, relation.

        Raises:
          UserError: the networks do not match as the terms require.
        """
        teacher = self._teacher_of(net)
        _check_match(self, net.options, teacher.options)
        student, base_terms, carry = self._run(net, batch, key)
        expected, _, _ = networks.apply(
            teacher, batch[CONSTANTS]["teacher"], lambda net: self._run(net, batch, key)
        )
        terms = {
            name: term._replace(coef=self.hard * term.coef)
            for name, term in base_terms.items()
        }
        if self.soft:
            terms |= self._soft(student, expected, batch)
        if self.cosine or self._compares_layers:
            own, other = student.stack, expected.stack
            assert own is not None
            assert other is not None
            terms |= self._of_states(net, teacher.options, own, other)
        return terms, carry

    def _run(
        self, net: networks.BoundNetwork, batch: Batch, key: jax.Array
    ) -> tuple[RecordedNetwork, dict[str, Term], Any]:
        """What a network computes in the base objective's loss; its terms and carry."""
        recorded = RecordedNetwork(
            net,
            every_position=self._reads_all_states,
            with_layers=self._compares_layers,
        )
        if not self._predicts:
            self._states(recorded, batch)
            return recorded, {}, ()
        terms, carry = self._base.loss(recorded, batch, key)
        if self._reads_all_states and recorded.stack is None:
            raise UserError(
                f"objective.base_objective {self.base_objective} reads only the "
                "encoder's states here, but the decoder's states are compared; set "
                "objective.cosine=0 and objective.soft_at=scored"
            )
        if self.soft and self.soft_at == "text":
            assert recorded.stack is not None
            recorded.first_readout = net.readout(recorded.stack.states)
        return recorded, terms, carry

    def _soft(
        self, student: RecordedNetwork, teacher: RecordedNetwork, batch: Batch
    ) -> dict[str, Term]:
        """Terms: soft of tokens, soft_class of classes.

        Raises:
          UserError: the base objective predicts no distribution, or one of clusters.
        """
        terms: dict[str, Term] = {}
        if (own := student.first_readout) is not None:
            other = teacher.first_readout
            assert other is not None
            weight = batch.get("weight")
            if self.soft_at == "text":
                assert student.stack is not None
                weight = _is_text(student.stack)
            if weight is not None and weight.shape == own.feature.shape[:2]:
                terms["soft"] = distillation.vocabulary_divergence(
                    own, other, weight, self.temperature
                )
        kind, weights = self._base.predicts, self._base.head_weights
        # heads of an objective that predicts nothing are for classes
        distribution = prediction_kind(kind).distribution if kind else "softmax"
        for name, logits in student.heads.items() if distribution else ():
            weight = batch.get(weights.get(name, "label_weight"))
            if weight is not None and weight.shape == logits.shape[:-1]:
                term = distillation.class_divergence(
                    logits,
                    teacher.heads[name],
                    weight,
                    self.temperature,
                    independent=distribution == "sigmoid",
                )
                terms["soft_class"] = _add(terms.get("soft_class"), term)
        if not terms:
            raise UserError(
                f"objective.soft: {self.base_objective} predicts neither tokens nor "
                "classes; set objective.soft=0"
            )
        return {n: term._replace(coef=self.soft) for n, term in terms.items()}

    def _of_states(
        self,
        net: networks.BoundNetwork,
        teacher: networks.Network,
        own: StackCall,
        other: StackCall,
    ) -> dict[str, Term]:
        """Terms: those of cosine, hidden, attention and relation that have a factor."""
        terms, is_text = {}, _is_text(own)
        if self.cosine:
            term = distillation.cosine_distance(own.states, other.states, is_text)
            terms["cosine"] = term._replace(coef=self.cosine)
        if not self._compares_layers:
            return terms
        assert own.layers is not None
        assert other.layers is not None
        of_student, of_teacher = self._pairs(net.options.layers, teacher.layers)
        if self.hidden:
            first = (0,) if self.hidden_from == "embeddings" else ()
            states, expected = (
                layers.states[np.array([*first, *(numbers + 1)])]
                for layers, numbers in (
                    (own.layers, of_student),
                    (other.layers, of_teacher),
                )
            )
            if self._projects:
                states = net.head("hidden", states)
            if self.hidden_at == "first":
                states, expected = states[:, :, :1], expected[:, :, :1]
                is_text = is_text[:, :1]
            normalize = self.hidden_error == "normalized"
            term = distillation.squared_error(
                states, expected, is_text, normalize=normalize
            )
            terms["hidden"] = term._replace(coef=self.hidden)
        one, two = (
            jax.tree.map(lambda leaf, at=numbers: leaf[at], layers)
            for layers, numbers in (
                (own.layers, of_student),
                (other.layers, of_teacher),
            )
        )
        mask = attention_mask(own.group)
        if self.attention:
            by = {
                "logits": distillation.attention_error,
                "divergence": distillation.attention_divergence,
            }
            term = by[self.attention_error](one, two, mask)
            terms["attention"] = term._replace(coef=self.attention)
        if self.relation:
            term = distillation.relation_divergence(
                one,
                two,
                mask,
                names=RELATIONS[self.relations],
                heads=self.relation_heads or cast(Transformer, teacher).heads,
            )
            terms["relation"] = term._replace(coef=self.relation)
        return terms

    def _pairs(self, student: int, teacher: int) -> tuple[np.ndarray, np.ndarray]:
        """[M] each: layers of the student, and the layers that they learn from.

        Raises:
          UserError: layer_map does not fit the networks.
        """
        numbers: Sequence[int] = self.layer_map
        if not numbers:
            if teacher % student:
                raise UserError(
                    f"objective.layer_map is (), but the {teacher} layers of the "
                    f"teacher are not a multiple of the student's {student}; give a "
                    "layer of the teacher for each"
                )
            step = teacher // student
            numbers = range(step - 1, teacher, step)
        if len(numbers) != student:
            raise UserError(
                f"objective.layer_map has {len(numbers)} layers, but model.layers is "
                f"{student}; it must have a layer of the teacher for each, or -1"
            )
        if max(numbers) >= teacher:
            raise UserError(
                f"objective.layer_map names layer {max(numbers)}, but the teacher has "
                f"layers 0 to {teacher - 1}"
            )
        learnt = np.array(numbers)
        return np.flatnonzero(learnt != NO_LAYER), learnt[learnt != NO_LAYER]


def _is_text(call: StackCall) -> jax.Array:
    """[B, L] float32: 1 where there is no padding."""
    return (call.group["segment"] > 0).astype(jnp.float32)


def _add(one: Term | None, other: Term) -> Term:
    if one is None:
        return other
    return Term(one.total + other.total, one.weight + other.weight)


def _check_match(
    own: Objective, student: networks.Network, teacher: networks.Network
) -> None:
    """Raises UserError: a term compares arrays whose sizes differ."""
    widths = {"cosine": own.cosine > 0}
    widths["hidden (with objective.projection=none)"] = (
        own.hidden > 0 and own.projection == "none"
    )
    for name, is_compared in widths.items():
        if is_compared and student.width != teacher.width:
            raise UserError(
                f"objective.{name} compares states of one width, but model.width is "
                f"{student.width} and the teacher's {teacher.width}"
            )
    if not (own.attention or own.relation):
        return
    student, teacher = cast(Transformer, student), cast(Transformer, teacher)
    if own.attention:
        _check_attention(student, teacher)
    if own.relation:
        heads = own.relation_heads or teacher.heads
        if not own.relation_heads and student.heads != teacher.heads:
            raise UserError(
                f"objective.relation_heads is 0, but model.heads is {student.heads} "
                f"and the teacher's {teacher.heads}; set it to a divisor of both widths"
            )
        for network in (student, teacher):
            if network.attention_width % heads:
                raise UserError(
                    f"objective.relation_heads is {heads}; it must divide the widths "
                    f"of all heads together, {student.attention_width} and the "
                    f"teacher's {teacher.attention_width}"
                )


def _check_attention(student: Transformer, teacher: Transformer) -> None:
    if student.heads != teacher.heads:
        raise UserError(
            f"objective.attention compares heads one by one, but model.heads is "
            f"{student.heads} and the teacher's {teacher.heads}"
        )
    for name, network in (("model", student), ("the teacher", teacher)):
        if network.logit_features or network.window or network.init == "t5":
            raise UserError(
                "objective.attention compares only logits of queries and keys, but "
                f"{name} has biases of positions, a window or the logits of init t5"
            )
