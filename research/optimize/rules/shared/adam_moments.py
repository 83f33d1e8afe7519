"""Adam's moments, which AdamW and LAMB also have."""

import dataclasses

import jax
import jax.numpy as jnp
import optax

from research.contract.fields import choice, number


@dataclasses.dataclass(frozen=True)
class AdamMoments:
    """The keys of Adam's update m / (sqrt(v) + epsilon)."""

    beta1: float = number(0.9, least=0, below=1)  # decay of the first moment
    beta2: float = number(0.98, least=0, below=1)  # decay of the second moment
    epsilon: float = number(1e-6, least=0)
    epsilon_place: str = choice("after", ("after", "before"))  # where epsilon is added:
    # after the bias correction of the second moment, or before it (fairseq, GPT, XLM)
    bias_correction: bool = True  # of the moments; False: as in BERT and the code
    # derived from it (ALBERT, ELECTRA, XLNet)

    def scale_by_adam(self) -> optax.GradientTransformation:
        """Adam's m / (sqrt(v) + epsilon), with or without bias correction.

        Without it the first steps are larger: the first one by (1 - beta1) /
        sqrt(1 - beta2) (Devlin et al. 2019, the released code). With epsilon_place
        "before" the correction is a factor of the rate: in step t epsilon then has the
        effect of epsilon / sqrt(1 - beta2^t) (Kingma and Ba 2015, end of section 2:
        epsilon-hat; fairseq/optim/adam.py; xlm/optim.py;
        openai/finetune-transformer-lm, opt.py).
        """
        b1, b2, epsilon = self.beta1, self.beta2, self.epsilon
        corrected = optax.scale_by_adam(b1, b2, epsilon)
        if self.bias_correction and self.epsilon_place == "after":
            return corrected

        def update(
            grads: optax.Updates,
            state: optax.ScaleByAdamState,
            params: optax.Params | None = None,
        ) -> tuple[optax.Updates, optax.ScaleByAdamState]:
            mu = optax.tree.update_moment(grads, state.mu, b1, 1)
            nu = optax.tree.update_moment(grads, state.nu, b2, 2)
            count = optax.safe_increment(state.count)
            rate = 1.0
            if self.bias_correction:
                rate = jnp.sqrt(1 - b2**count) / (1 - b1**count)
            updates = jax.tree.map(
                lambda m, v: rate * m / (jnp.sqrt(v) + epsilon), mu, nu
            )
            return updates, optax.ScaleByAdamState(count, mu, nu)

        return optax.GradientTransformation(corrected.init, update)
