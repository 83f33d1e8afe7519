"""GloVe: regression on the log co-occurrence of words (Pennington et al. 2014)."""

# B batch, L length, K = L / 2 cells, R raw tokens of a row

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from research import networks, objectives
from research.contract.batch import (
    ArraySpec,
    Batch,
    Example,
    VocabInfo,
    input_specs,
    scored_specs,
)
from research.contract.errors import UserError
from research.contract.fields import number
from research.data.read.formats.cooccurrences import CELLS
from research.data.rows import TextSpec
from research.objectives.losses.cross_entropy import Term
from research.objectives.vectors.word_scores import look_up


@dataclass(frozen=True)
class Objective(objectives.Objective):
    """Fits log X of two words by the product of their vectors w and v, plus biases.

    The loss of a cell is f(X) (w v + b + c - log X)^2 / 2 with f(X) = (X / x_max)^alpha
    up to 1 (section 3; the half is from the released code). A row has the cells of
    L / 2 pairs of words: the first of each is read, the second is the target.
    """

    x_max: float = number(100.0, above=0)  # co-occurrence from which the weight is 1
    alpha: float = number(0.75, least=0, most=4)  # exponent of the weight below it

    pattern = "self"
    min_length = 2  # one pair

    def text_spec(self, length: int) -> TextSpec:
        return TextSpec("stream", 2 * (length // 2), arrays=(CELLS,))

    def batch_spec(self, length: int) -> dict[str, ArraySpec]:
        cells = length // 2
        specs = input_specs(cells, intervals=("low",))
        specs |= scored_specs(cells, gathered=False)
        return specs | {"target_log": ArraySpec((cells,), np.float32)}

    def corrupt(
        self, example: Example, key: np.ndarray, vocab: VocabInfo, length: int
    ) -> dict[str, np.ndarray]:
        cells = length // 2
        pair = example.token[:, : 2 * cells].reshape(-1, cells, 2)
        met = example.arrays[CELLS][:, : 2 * cells].reshape(-1, cells, 2)
        here = np.arange(cells) < (example.length // 2)[:, None]
        if (met[here][:, 0] != met[here][:, 1]).any():
            raise UserError(
                "objective glove reads pairs of words, but the text has other tokens, "
                "too; set data.vocabulary=words and data.separator=none"
            )
        known = here & ((pair != vocab.unk_id) & ~vocab.is_special[pair]).all(axis=-1)
        x = np.where(known, met[..., 0], 1.0).astype(np.float64)
        weight = np.where(known, np.minimum(1.0, (x / self.x_max) ** self.alpha), 0.0)
        position = np.where(here, np.arange(cells, dtype=np.int32), 0)
        token, target = (np.where(here, pair[..., n], vocab.pad_id) for n in (0, 1))
        return {
            "token": token.astype(np.int32),
            "position": position,
            "segment": here.astype(np.int32),
            "token_type": np.zeros_like(position),
            "rank": position,
            "reach": position.copy(),
            "low": position.copy(),
            "target": target.astype(np.int32),
            "weight": weight.astype(np.float32),
            "target_log": np.log(x).astype(np.float32),
        }

    def needs(self, vocab: VocabInfo) -> networks.Needs:
        return networks.Needs(pattern=self.pattern, token_bias=True, untied=True)

    def word_table(self, params: Any) -> Any:
        """The sum of both vectors of each word (section 4.2)."""
        return params["token"]["embedding"] + params["output"]["embedding"]

    def loss(
        self, net: networks.BoundNetwork, batch: Batch, key: jax.Array
    ) -> tuple[dict[str, Term], Any]:
        """Terms: glove, the mean over cells, as the released code prints it."""
        feature, table, bias = net.readout(net.states(batch))[:3]
        out, shift = look_up(table, bias, batch["target"])
        logits = jnp.sum(feature * out.astype(feature.dtype), axis=-1)
        logits = logits.astype(jnp.float32) + shift + net.token_bias(batch)
        error = logits - batch["target_log"]
        total = jnp.sum(0.5 * batch["weight"] * error**2)
        return {"glove": Term(total, jnp.sum(batch["weight"] > 0).astype(float))}, ()
