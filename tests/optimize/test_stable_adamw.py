"""StableAdamW equals the paper's algorithm, layer by layer."""

import jax
import numpy as np
import optax

from research.optimize.rules.stable_adamw import Optimizer

B1, B2, EPSILON, DECAY, RATE = 0.9, 0.99, 1e-6, 0.1, 0.01


def reference(param, grads):
    """Algorithm 2 of Wortsman et al. 2023, for one matrix."""
    m = v = np.zeros_like(param)
    for t, g in enumerate(grads, 1):
        m, v = B1 * m + (1 - B1) * g, B2 * v + (1 - B2) * g * g
        m_hat, v_hat = m / (1 - B1**t), v / (1 - B2**t)
        rms = np.sqrt(np.mean(g * g / np.maximum(v_hat, EPSILON**2)))
        rate = RATE / max(1.0, rms)
        param = param - rate * (m_hat / (np.sqrt(v_hat) + EPSILON) + DECAY * param)
    return param


def test_steps_are_those_of_the_algorithm():
    rng = np.random.default_rng(0)
    kernel = rng.normal(size=(2, 3, 4)).astype(np.float32)
    # Of the second layer gradients become a hundred times as large: it is slowed down.
    grads = rng.normal(size=(5, 2, 3, 4)).astype(np.float32)
    grads[3:, 1] *= 100
    rule = Optimizer(beta1=B1, beta2=B2, epsilon=EPSILON, weight_decay=DECAY)
    optimizer = optax.chain(*rule.transforms(), optax.scale(-RATE))
    tree = lambda x: {"stack": {"blocks": {"dense": {"kernel": x}}}}  # noqa: E731
    params = tree(kernel)
    state = optimizer.init(params)
    for grad in grads:
        updates, state = jax.jit(optimizer.update)(tree(grad), state, params)
        params = optax.apply_updates(params, updates)
    found = params["stack"]["blocks"]["dense"]["kernel"]
    expected = [reference(kernel[n], grads[:, n]) for n in range(2)]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
