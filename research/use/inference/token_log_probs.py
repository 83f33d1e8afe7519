"""log p of each token of a text given those before it, by a causal model."""

# B rows, L positions, K likeliest tokens

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from research import networks
from research.distributed import sharding
from research.objectives.layout.prompt import pad_group

MOST = 5
"""The likeliest tokens that are given for each position."""


class TokenLogProbs(NamedTuple):
    """The log-probabilities of a text's tokens; the first token follows bos."""

    text: list[str]  # L
    log_p: np.ndarray  # [L] float32; nan of a bos, which nothing precedes
    best: list[list[str]]  # L of K: the most probable tokens, the best one first
    best_log_p: np.ndarray  # [L, K] float32

    def after_bos(self) -> "TokenLogProbs":
        """The same with a bos before the text."""
        none = np.full_like(self.best_log_p[:1], np.nan)
        return TokenLogProbs(
            ["", *self.text],
            np.concatenate([none[:, 0], self.log_p]),
            [[], *self.best],
            np.concatenate([none, self.best_log_p]),
        )


class CausalScorer:
    """Scores texts in one compiled shape.

    Args:
      run: a causal model, such as `research.program.restored.RestoredRun`.
      objective: the part of its objective that writes.
      batch: rows that are scored at once.
      width: the maximum of positions of a row.
    """

    def __init__(self, run: Any, objective: Any, *, batch: int, width: int):
        self._run, self._objective = run, objective
        self._batch, self._width = batch, width

        def score(params: Any, group: dict[str, jax.Array]) -> tuple[jax.Array, ...]:
            def logits(net: networks.BoundNetwork) -> jax.Array:
                return net.readout(net.states(group)).logits()

            logits_BLV = networks.apply(run.network, params, logits)
            log_p_BLV = jax.nn.log_softmax(logits_BLV, axis=-1)[:, :-1]
            next_BL = group["token"][:, 1:, None]
            log_p_BL = jnp.take_along_axis(log_p_BLV, next_BL, axis=2)[..., 0]
            most = min(MOST, log_p_BLV.shape[-1])
            return log_p_BL, *jax.lax.top_k(log_p_BLV, most)

        self._score = jax.jit(score)

    def __call__(self, texts: Sequence[Sequence[int]]) -> list[TokenLogProbs]:
        """The scores of at most `batch` texts, each of at most `width` tokens with bos.

        Args:
          texts: tokens, without bos.
        """
        rows = [*texts, *[texts[-1]] * (self._batch - len(texts))]
        group = self._objective.prompt(rows, self._run.vocabulary.vocab).group
        group = pad_group(group, self._width)
        with sharding.context(self._run.mesh):
            found = jax.device_get(self._score(self._run.params, group))
        return [self._of_row(n, group, found) for n in range(len(texts))]

    def _of_row(self, n: int, group: Any, found: Any) -> TokenLogProbs:
        count = int((group["segment"][n] > 0).sum())
        log_p, best_log_p, best = (array[n, : count - 1] for array in found)
        spell = self._run.vocabulary.piece_text
        return TokenLogProbs(
            [spell(token) for token in group["token"][n, 1:count].tolist()],
            log_p,
            [[spell(token) for token in row] for row in best.tolist()],
            best_log_p,
        )
