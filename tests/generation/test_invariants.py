"""What a loop of a sampler computes once: the same values, with less in each pass."""

import jax
import jax.numpy as jnp
import numpy as np

from research.generation.samplers.shared.invariants import hoist


def test_what_does_not_read_the_carry_is_computed_once():
    """Slices and casts of weights move out; what is larger than they, stays."""
    weights = jax.random.normal(jax.random.key(0), (2, 4, 4))

    def body(carry):
        count, x = carry
        first, second = jax.lax.split(weights.astype(jnp.bfloat16), (1, 1))
        larger = jnp.broadcast_to(weights[:1], (8, 4, 4)).sum((0, 1))
        return count + 1, jnp.sin(x @ first[0] @ second[0] + larger[None])

    carry = jnp.int32(0), jnp.ones((1, 4))
    hoisted = hoist(body, carry)
    for got, expected in zip(hoisted(carry), body(carry), strict=True):
        np.testing.assert_array_equal(got, expected)

    def operations(function):
        return {str(each.primitive) for each in jax.make_jaxpr(function)(carry).eqns}

    assert {"split", "convert_element_type"} <= operations(body)
    assert not {"split", "slice"} & operations(hoisted)
    assert "broadcast_in_dim" in operations(hoisted)


def test_a_loop_has_the_result_of_its_body():
    factor = jnp.arange(3.0)

    def body(carry):
        return {"count": carry["count"] + 1, "sum": carry["sum"] + factor**2}

    carry = {"count": jnp.int32(0), "sum": jnp.zeros(3)}

    @jax.jit
    def run(carry):
        goes_on = lambda carry: carry["count"] < 5  # noqa: E731
        return jax.lax.while_loop(goes_on, hoist(body, carry), carry)

    assert run(carry)["sum"].tolist() == [0, 5, 20]
