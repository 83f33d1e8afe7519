"""How tags are predicted from the logits of words: `tags` of a task head."""

# B batch, L length, N tags

import jax
import jax.numpy as jnp

from research import networks
from research.objectives.tasks import crf


class Softmax:
    """Predicts each tag independently."""

    def heads(self, num_tags: int) -> dict[str, networks.HeadSpec]:
        """Heads in addition to that of the logits."""
        return {}

    def loss(
        self,
        net: networks.BoundNetwork,
        logits_BLN: jax.Array,
        target_BL: jax.Array,
        weight_BL: jax.Array,
    ) -> jax.Array:
        """Summands of -log p of the tags of words whose weight is 1."""
        log_p_BLN = jax.nn.log_softmax(logits_BLN)
        of_target = jnp.take_along_axis(log_p_BLN, target_BL[..., None], axis=2)
        return -weight_BL * of_target[..., 0]

    def best(
        self, net: networks.BoundNetwork, logits_BLN: jax.Array, is_word_BL: jax.Array
    ) -> jax.Array:
        """[B, L] int32: the predicted tags, valid at words."""
        return jnp.argmax(logits_BLN, axis=2).astype(jnp.int32)

    def probabilities(
        self, net: networks.BoundNetwork, logits_BLN: jax.Array, is_word_BL: jax.Array
    ) -> jax.Array:
        """[B, L, N] float32, valid at words."""
        return jax.nn.softmax(logits_BLN)


class CRF(Softmax):
    """A linear-chain CRF over the words of a row, see `crf`."""

    def heads(self, num_tags: int) -> dict[str, networks.HeadSpec]:
        return {"transition": networks.HeadSpec(num_tags + 1, "none")}

    def loss(
        self,
        net: networks.BoundNetwork,
        logits_BLN: jax.Array,
        target_BL: jax.Array,
        weight_BL: jax.Array,
    ) -> jax.Array:
        transition = _transition(net, logits_BLN)
        return crf.negative_log_likelihood(
            transition, logits_BLN, target_BL, weight_BL > 0
        )

    def best(
        self, net: networks.BoundNetwork, logits_BLN: jax.Array, is_word_BL: jax.Array
    ) -> jax.Array:
        return crf.best_tags(_transition(net, logits_BLN), logits_BLN, is_word_BL)

    def probabilities(
        self, net: networks.BoundNetwork, logits_BLN: jax.Array, is_word_BL: jax.Array
    ) -> jax.Array:
        return crf.marginals(_transition(net, logits_BLN), logits_BLN, is_word_BL)


def _transition(net: networks.BoundNetwork, logits_BLN: jax.Array) -> jax.Array:
    """The CRF's transitions: a linear head of the one-hot previous tag."""
    return net.head("transition", jnp.eye(logits_BLN.shape[2] + 1))
