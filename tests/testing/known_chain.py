"""A network that gives the exact conditionals of the chain of `markov_chain`."""

# B rows, K scored positions, V vocabulary, L positions, N hidden tokens

from types import MappingProxyType, SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn

from research.contract.batch import attention_mask, input_group
from research.distributed import sharding
from research.distributed.options import MeshOptions
from research.networks.readouts.softmax import Readout
from tests.testing.markov_chain import (
    NUM_STATES,
    POWERS,
    STATIONARY,
    TRANSITION,
    VOCAB,
    states_of,
)

LOG_ZERO = -1e9


class KnownChain(nn.Module):
    """Of what a query attends to, it knows the tokens and their positions in the text.

    Attributes:
      shift: a token is as many positions behind the position it is read at.
    """

    shift: int = 0

    def states(self, batch: dict, scored: Any = None, num_keys: Any = None):
        """[B, K, V]: the log of the conditionals."""
        if scored is None:
            index = jnp.arange(batch["token"].shape[1], dtype=jnp.int32)
            scored = jnp.broadcast_to(index[None], batch["token"].shape)
        group = input_group(batch)
        shape = jax.ShapeDtypeStruct((*scored.shape, VOCAB.size), jnp.float32)
        return jax.pure_callback(self._conditionals, shape, group, scored)

    def readout(self, states):
        eye = jnp.eye(VOCAB.size)
        return Readout(states, eye, jnp.zeros(VOCAB.size), VOCAB.size)

    def _conditionals(self, group: dict, scored: Any) -> np.ndarray:
        group = {name: np.asarray(array) for name, array in group.items()}
        mask, state = attention_mask(group), states_of(group["token"])
        log_p = np.full((*scored.shape, VOCAB.size), LOG_ZERO, np.float32)
        for row, slot in np.ndindex(*scored.shape):
            query = int(scored[row, slot])
            known = np.flatnonzero(mask[row, query] & (state[row] >= 0))
            where = {
                int(group["position"][row, key]) - self.shift: int(state[row, key])
                for key in known
            }
            odds = conditional(where, int(group["position"][row, query]))
            log_p[row, slot, VOCAB.ordinary_ids[:NUM_STATES]] = np.log(odds)
        return log_p


def conditional(known: dict[int, int], position: int) -> np.ndarray:
    """[states]: of the state at a position, given those at others.

    Only the nearest known states on either side matter. A state that is known itself,
    which is a leak, is certain.
    """
    if position in known:
        return np.eye(NUM_STATES)[known[position]] + 1e-30
    left = max((at for at in known if at < position), default=None)
    right = min((at for at in known if at > position), default=None)
    odds = STATIONARY.copy()
    if left is not None:
        odds = POWERS[position - left][known[left]].copy()
    if right is not None:
        odds *= POWERS[right - position][:, known[right]]
    return odds / odds.sum()


def log_likelihood(state: np.ndarray) -> float:
    """log p of a text."""
    return float(
        np.log(STATIONARY[state[0]]) + np.log(TRANSITION[state[:-1], state[1:]]).sum()
    )


def enumerated(state: np.ndarray, at: int, hidden: np.ndarray) -> float:
    """log p(the state at `at` | all but `hidden`), by summing over all fillings."""
    total = np.zeros(NUM_STATES)
    for filling in np.ndindex(*[NUM_STATES] * len(hidden)):
        text = state.copy()
        text[hidden] = filling
        total[text[at]] += np.exp(log_likelihood(text))
    return float(np.log(total[state[at]] / total.sum()))


class LetterVocabulary:
    """Letters are tokens, the ordinary ids of `vocab`; words start after spaces."""

    facts = MappingProxyType({"vocabulary": ""})
    keep_whitespace = False

    def __init__(self, vocab: Any = VOCAB):
        self.vocab = vocab

    def encode(self, text: str) -> tuple[np.ndarray, np.ndarray]:
        token = [ord(c) - ord("a") for word in text.split() for c in word]
        starts = [not n for word in text.split() for n in range(len(word))]
        return self.vocab.ordinary_ids[token], np.array(starts, bool)


def make_run(objective: Any, network: Any, params: Any = None, **fields: Any) -> Any:
    """What a `Scorer` needs of a run, on one device."""
    mesh = sharding.make_mesh(
        MeshOptions(**{"data": 1, "fsdp": 1, "tensor": 1}), devices=jax.devices()[:1]
    )
    length = fields.pop("length", 32)
    fields = {"vocabulary": LetterVocabulary(), "mesh": mesh} | fields
    config = SimpleNamespace(data=SimpleNamespace(length=length))
    return SimpleNamespace(
        config=config,
        objective=objective,
        network=network,
        params=params or {},
        **fields,
    )
