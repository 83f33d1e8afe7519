"""A language model that learns the predictions of a frozen teacher, another run."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn

from research import networks, objectives
from research.contract.batch import (
    CONSTANTS,
    ArraySpec,
    Batch,
    ConstantSpec,
    Example,
    VocabInfo,
    input_specs,
    scored_specs,
)
from research.contract.fields import free_text, number
from research.data.rows import TextSpec
from research.objectives.lm import lm
from research.objectives.losses.cross_entropy import Term, masked_cross_entropy
from research.objectives.losses.softmax import compute_logits


@dataclass(frozen=True)
class Objective(objectives.Objective):
    """Predicts the next token, and the teacher's probabilities of it (Hinton et al.
    2015, section 2, at temperature 1)."""

    teacher: str = free_text("")  # workdir of a run of lm, a transformer
    layers: int = number(4, least=1)  # of the teacher, as are the others
    width: int = number(256, least=1)
    heads: int = number(4, least=1)
    feedforward: int = number(1024, least=1)

    pattern = "causal"
    min_length = 1
    token_terms = ("distilled",)

    def text_spec(self, length: int) -> TextSpec:
        return TextSpec("stream", length)

    def batch_spec(self, length: int) -> dict[str, ArraySpec]:
        return input_specs(length) | scored_specs(length, gathered=False)

    def corrupt(
        self, example: Example, key: np.ndarray, vocab: VocabInfo, length: int
    ) -> dict[str, np.ndarray]:
        return lm.Objective().corrupt(example, key, vocab, length)

    def constants(self, vocab: VocabInfo) -> dict[str, ConstantSpec]:
        def params(key: jax.Array) -> Any:
            specs = self.batch_spec(length=1).items()
            batch = {name: jnp.zeros((1, *s.shape), s.dtype) for name, s in specs}
            return networks.init(self._network(vocab.size), _predict(batch), key)

        arrays = jax.eval_shape(lambda: params(jax.random.key(0)))
        return {"teacher": ConstantSpec(self.teacher, arrays)}

    def _network(self, size: int) -> nn.Module:
        keys = {"network": "transformer", "layers": self.layers, "width": self.width}
        keys |= {"heads": self.heads, "feedforward": self.feedforward}
        return networks.from_config(keys).module(networks.Needs(pattern="causal"), size)

    def loss(
        self, net: networks.BoundNetwork, batch: Batch, key: jax.Array
    ) -> tuple[dict[str, Term], Any]:
        """Terms: distilled, accuracy (a metric) and teacher."""
        params = batch[CONSTANTS]["teacher"]
        network = self._network(len(params["token"]["embedding"]))
        expected = networks.apply(network, params, _predict(batch))
        readout, weight = net.readout(net.states(batch)), batch["weight"]
        loss = -(jnp.exp(expected) * _log_probs(readout)).sum(axis=-1) * weight
        terms = masked_cross_entropy("distilled", readout, batch)
        return terms | {"teacher": Term(loss.sum(), weight.sum())}, ()


def _predict(batch: Batch) -> Callable[[networks.BoundNetwork], jax.Array]:
    return lambda net: _log_probs(net.readout(net.states(batch)))


def _log_probs(readout: networks.Readout | networks.OtherReadout) -> jax.Array:
    logits = compute_logits(readout.feature, readout.table, readout.bias)
    return jax.nn.log_softmax(logits)
