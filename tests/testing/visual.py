"""A language model of captions that sees the regions of their images."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from research import objectives
from research.contract.batch import FEATURE, ArraySpec, input_specs, scored_specs
from research.data.documents import ArrayType
from research.data.rows import TextSpec
from research.networks import Needs
from research.objectives.lm import lm
from research.objectives.losses.cross_entropy import masked_cross_entropy

REGIONS, WIDTH = 4, 8


@dataclass(frozen=True)
class Objective(objectives.Objective):
    """Reads the regions, each a mask with the region's features, then the caption.

    All attend to the regions, and the caption to what precedes in it (one stream for
    both, as in VisualBERT, Li et al. 2019, section 3.2).
    """

    family = "LM"
    pattern = "general"
    min_length = REGIONS + 1
    array_types: ClassVar = {
        "regions": ArrayType("document", (np.float32, (REGIONS, WIDTH)))
    }

    def text_spec(self, length):
        return TextSpec("document", length - REGIONS, arrays=("regions",))

    def batch_spec(self, length):
        specs = input_specs(length) | scored_specs(length, gathered=False)
        return specs | {FEATURE: ArraySpec((length, WIDTH), np.float32)}

    def corrupt(self, example, key, vocab, length):
        text = lm.Objective().corrupt(example, key, vocab, length - REGIONS)
        added = ((0, 0), (REGIONS, 0))
        batch = {name: np.pad(array, added) for name, array in text.items()}
        has_text_B1 = example.length[:, None] > 0
        batch["token"][:, :REGIONS] = np.where(has_text_B1, vocab.mask_id, vocab.pad_id)
        batch["segment"][:, :REGIONS] = has_text_B1
        batch["rank"][:, :REGIONS] = batch["reach"][:, :REGIONS] = -1
        none = np.zeros((len(key), length - REGIONS, WIDTH), np.float32)
        feature = np.concatenate([example.arrays["regions"], none], axis=1)
        return batch | {FEATURE: feature}

    def needs(self, vocab):
        return Needs(pattern="general", input_features=WIDTH)

    def loss(self, net, batch, key):
        """Terms: captions, and accuracy (a metric)."""
        readout = net.readout(net.states(batch))
        return masked_cross_entropy("captions", readout, batch), ()
