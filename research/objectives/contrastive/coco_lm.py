"""COCO-LM: corrects replaced tokens, and contrasts texts with crops (Meng et al. 2021).

A generator replaces masked tokens, as in ELECTRA. The main network restores the
original tokens of the masked positions, by a mixture of copying and a softmax
(corrective language modelling, section 3.1). Its vector of the corrupted text is
contrasted with that of a crop of the original against those of the batch (sequence
contrastive learning, section 3.2).
"""

# B batch (of all devices), L length, D width, K masked positions

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from research import networks
from research.contract.batch import (
    ArraySpec,
    Batch,
    Example,
    VocabInfo,
    input_group,
    input_specs,
)
from research.contract.fields import fraction, number
from research.data import counter_rng
from research.objectives.contrastive import electra
from research.objectives.contrastive.copy_loss import copy_cross_entropy
from research.objectives.layout import input_format
from research.objectives.losses.contrastive import MASKED_LOGIT, unit
from research.objectives.losses.cross_entropy import (
    Term,
    binary_cross_entropy,
    cross_entropy,
    with_accuracy,
)


@dataclass(frozen=True)
class Objective(electra.Objective):
    """Reads bos, text, eos, and a crop of the text between bos and eos."""

    mask_fraction: float = fraction(1.0)
    generator_size: float = number(1.0, above=0)
    generator_depth: float = number(0.33, above=0)
    crop_rate: float = number(0.9, above=0, most=1)  # fraction of a text's tokens in
    # its crop, which is contiguous
    contrast_coef: float = number(1.0, least=0)  # weight of the contrastive loss
    contrast_temperature: float = number(1.0, above=0)  # divides the cosines

    supports_accumulation = False
    shown_answers: ClassVar = {
        **electra.Objective.shown_answers,
        "copy": electra.Objective.shown_answers["discriminator"],
        "contrast": "the crop is of the same text",
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        fixed = {"task": "replaced", "head": "state", "format": "stream"}
        for name, value in (fixed | {"positions": "distinct"}).items():
            if getattr(self, name) != value:
                raise ValueError(f"{name} must be {value}, not {getattr(self, name)}")

    def batch_spec(self, length: int) -> dict[str, ArraySpec]:
        specs = super().batch_spec(length) | input_specs(length, "crop_")
        return specs | {"crop_weight": ArraySpec((), np.float32)}

    def corrupt(
        self, example: Example, key: np.ndarray, vocab: VocabInfo, length: int
    ) -> dict[str, np.ndarray]:
        """Masks tokens for the generator, and crops the original text."""
        batch = super().corrupt(example, key, vocab, length)
        size = np.rint(self.crop_rate * example.length).astype(np.int64)
        size = np.clip(size, np.minimum(example.length, 1), None)
        draw = counter_rng.uniform(key, "crop", 1)[:, 0]
        begin = (draw * (example.length - size + 1)).astype(np.int64)
        place = np.arange(example.token.shape[1])
        column = np.minimum(begin[:, None] + place, len(place) - 1)
        cropped = np.take_along_axis(example.token, column, axis=1)
        crop = example._replace(
            token=np.where(place < size[:, None], cropped, vocab.pad_id),
            length=size.astype(example.length.dtype),
        )
        token, num_tokens = input_format.add_special_tokens(crop, vocab, length)
        group = input_format.full_input(token, num_tokens, "crop_")
        return batch | group | {"crop_weight": (size > 0).astype(np.float32)}

    def for_scoring(self) -> electra.Objective:
        """`electra`, which has the same networks and head."""
        names = [field.name for field in dataclasses.fields(electra.Objective)]
        return electra.Objective(**{name: getattr(self, name) for name in names})

    def needs(self, vocab: VocabInfo) -> networks.Needs:
        heads = {"replaced": networks.HeadSpec(1, "none")}
        return dataclasses.replace(super().needs(vocab), transform=False, heads=heads)

    def loss(
        self, net: networks.BoundNetwork, batch: Batch, key: jax.Array
    ) -> tuple[dict[str, Term], Any]:
        """Terms: generator, copy, mlm, contrast; and their accuracies (metrics).

        The copy gate is trained to predict whether tokens are replaced, at all
        positions; the loss of the restored tokens does not reach it.
        """
        masked, target, weight = (batch[k] for k in ("scored", "target", "weight"))
        readout = net.generator.readout(net.generator.states(batch, scored=masked))
        generator, correct = cross_entropy(readout, target, weight)
        sampled = electra.sample(readout, key, batch["example"], self.temperature)
        token = electra.write(batch["token"], masked, sampled, weight)
        original = electra.write(batch["token"], masked, target, weight)
        here = (batch["segment"] > 0).astype(jnp.float32)
        main = net.discriminator
        states_BLD = main.states(batch | {"token": token})
        logits = main.head("replaced", states_BLD)[..., 0]
        copy, told = binary_cross_entropy(logits, token != original, here)
        at_masks = jnp.take_along_axis(states_BLD, masked[..., None], 1, mode="clip")
        gate = jnp.take_along_axis(-logits, masked, axis=1, mode="clip")
        mlm, restored = copy_cross_entropy(
            main.readout(at_masks), jax.lax.stop_gradient(gate), sampled, target, weight
        )
        first = jnp.zeros_like(masked[:, :1])
        crop = main.states(input_group(batch, "crop_"), scored=first)[:, 0]
        contrast, nearest = contrast_pairs(
            states_BLD[:, 0], crop, batch["crop_weight"], self.contrast_temperature
        )
        return (
            with_accuracy("generator", generator, correct)
            | with_accuracy("copy", copy, told, coef=self.coef)
            | with_accuracy("mlm", mlm, restored)
            | with_accuracy("contrast", contrast, nearest, coef=self.contrast_coef)
        ), ()


def contrast_pairs(
    one_BD: jax.Array, other_BD: jax.Array, weight: jax.Array, temperature: float
) -> tuple[Term, jax.Array]:
    """InfoNCE of each of 2 B vectors, with all others as candidates (equation 7).

    Args:
      weight: [B] float32; a pair of weight 0 is neither query nor candidate.

    Returns:
      The mean loss of both sides, and the weight of vectors whose pair is nearest.
    """
    vectors = unit(jnp.concatenate([one_BD, other_BD]).astype(jnp.float32))
    both, count = jnp.tile(weight, 2), len(weight)
    scores = jnp.einsum("bd,cd->bc", vectors, vectors, precision="highest")
    index = jnp.arange(2 * count)
    possible = (both > 0)[None] & (index[:, None] != index[None])
    scores = jnp.where(possible, scores / temperature, MASKED_LOGIT)
    answer = (index + count) % (2 * count)
    of_answer = jnp.take_along_axis(scores, answer[:, None], axis=1)[:, 0]
    losses = jax.nn.logsumexp(scores, axis=1) - of_answer
    total = jnp.sum(jnp.where(both > 0, both * losses, 0.0)) / 2
    nearest = jnp.argmax(scores, axis=1) == answer
    correct = jnp.sum(jnp.where(nearest, both, 0.0)) / 2
    return Term(total, jnp.sum(weight)), jax.lax.stop_gradient(correct)
