"""A weighted sum of objectives that are trained together on the same text.

Examples are BERT's masked LM with next sentence prediction, and continual multi-task
learning (ERNIE 2.0, Sun et al. 2020, section 3.1), whose tasks start at different
training steps through the schedules of their weights; one step is compiled for all.
"""

# B batch

import functools
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from research import networks
from research.contract.batch import ArraySpec, Batch, Example, VocabInfo
from research.contract.errors import UserError
from research.contract.fields import number
from research.objectives.combined import composite
from research.objectives.layout.specials import Specials
from research.objectives.losses.cross_entropy import Term
from research.objectives.noise import scoring


@dataclass(frozen=True)
class Objective(composite.OfParts):
    """Reads one text, from which the text of each part is derived (`shared_input`).

    Each part has arrays named `<part>_<array>`, a forward pass through the network, and
    terms `<part>/<term>`. All parts are corrupted with the row's key, so equal parts
    hide the same tokens.
    """

    parts: composite.Fields = ()  # name -> fields of an objective, and also: objective,
    # its module (by default the part's name), and weight, the factor of its loss: a
    # number (by default 1) or [[step, number], ...], linear between steps. Without
    # parts: mlm.
    token_types: int = number(0, least=0)  # token types per part, if each part has its
    # own: a task embedding (ERNIE 2.0); 0: parts share their token types

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "parts", composite.parse_parts(self.parts))
        names, _ = self.members, self.schedules  # both are made here
        composite.check_prefixes(names)

    @functools.cached_property
    def _parts(self) -> composite.Parts:
        parts = self.parts or (("mlm", ()),)
        return composite.make_parts(parts, schedule_key="weight")

    def batch_spec(self, length: int) -> dict[str, ArraySpec]:
        specs = {
            f"{name}_{array}": spec
            for name, part in self.members.items()
            for array, spec in part.batch_spec(length).items()
        }
        return specs | {"step": ArraySpec(())}

    def corrupt(
        self, example: Example, key: np.ndarray, vocab: VocabInfo, length: int
    ) -> dict[str, np.ndarray]:
        """Corrupts the clean text for each part separately."""
        batch, base = {"step": example.step.astype(np.int32)}, self.text_spec(length)
        for index, (name, part) in enumerate(self.members.items()):
            arrays = composite.corrupt_part(part, example, base, key, vocab, length)
            for array in arrays:
                if self.token_types and array.endswith("token_type"):
                    first = np.int32(index * self.token_types)
                    arrays[array] = arrays[array] + first
            batch |= {f"{name}_{array}": value for array, value in arrays.items()}
        return batch

    def scored_part(self, method: str) -> tuple[Any, str]:
        """Raises UserError: token types name the part, which rows of one part lack."""
        if self.token_types:
            scoring.refuse(f"objective joint with token_types {self.token_types}")
        return super().scored_part(method)

    @property
    def writers(self) -> dict[str, Any]:
        """Raises UserError: token types name the part, which prompts lack."""
        if self.token_types:
            raise UserError(
                f"objective joint with token_types {self.token_types} writes no text: "
                "its parts' token types are not those of a prompt"
            )
        return super().writers

    def specials(self, vocab: VocabInfo) -> Specials:
        """The specials of the first part that fills masks, with its token types.

        If no part does, those of the first part whose rows are not causal.
        """
        if not self.token_types:
            return super().specials(vocab)
        members = [*self.members.values()]
        read = min(
            members, key=lambda each: (not each.fills_masks, each.pattern == "causal")
        )
        first, own = members.index(read) * self.token_types, read.specials(vocab)
        return own._replace(
            token_type=first + own.token_type,
            last_type=first + own.last_type,
            second_type=first + own.second_type,
        )

    def needs(self, vocab: VocabInfo) -> networks.Needs:
        """Raises UserError: the parts cannot train one network.

        It is also raised if a part has more token types than `token_types`.
        """
        needs = super().needs(vocab)
        if 0 < self.token_types < needs.token_types:
            raise UserError(
                f"objective.token_types is {self.token_types}, but a part of objective "
                f"joint has {needs.token_types} token types, which others would share; "
                f"set it to {needs.token_types} or more, or to 0"
            )
        own = self.token_types * len(self.members)
        return replace(needs, token_types=max(own, needs.token_types))

    def loss(
        self, net: networks.BoundNetwork, batch: Batch, key: jax.Array
    ) -> tuple[dict[str, Term], Any]:
        """The terms of all parts, with coefficients multiplied by the part's weight.

        The carry maps the name of each part that has one to its carry.
        """
        step = jnp.max(batch["step"])  # the same in all rows
        terms: dict[str, Term] = {}
        carries: dict[str, Any] = {}
        for name, part in self.members.items():
            part_terms, carry = part.loss(net, self.part_batch(name, batch), key)
            if jax.tree.leaves(carry):
                carries[name] = carry
            weight = composite.piecewise_linear(self.schedules[name], step)
            terms |= {
                f"{name}/{term}": value._replace(coef=weight * value.coef)
                for term, value in part_terms.items()
            }
        return terms, carries or ()

    def outputs(
        self, net: networks.BoundNetwork, batch: Batch, key: jax.Array
    ) -> dict[str, Any]:
        """The outputs of each part."""
        return {
            name: part.outputs(net, self.part_batch(name, batch), key)
            for name, part in self.members.items()
        }
