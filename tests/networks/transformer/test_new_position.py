"""A scheme of positions is one new file, which the laws find and hold."""

from tests.testing.new_part import check_laws

SCHEME = '''
"""KERPLE's bias of the logits: -r1 log(1 + r2 distance), learned (Chi et al. 2022)."""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp

from research.contract.fields import number
from research.networks.shared.dense import constant
from research.networks.transformer import positions


@dataclass(frozen=True)
class Scheme(positions.Scheme):
    """Each head has its own r1 and r2, in each stack."""

    first_rate: float = number(1.0, above=0)  # r2 at first

    def features(self, options):
        return ("logits",)

    def bias(self, stack, options, inputs):
        values = {"kerple_scale": 1.0, "kerple_rate": self.first_rate}
        return Bias(
            *(
                stack.param(name, constant(value, "heads"), (options.heads,))
                for name, value in values.items()
            )
        )


class Bias(NamedTuple):
    scale: jax.Array
    rate: jax.Array

    def between(self, query_BL, key_BM):
        distance = jnp.abs(key_BM[:, None, :] - query_BL[:, :, None])
        scale, rate = (jnp.abs(x)[None, :, None, None] for x in (self.scale, self.rate))
        return -scale * jnp.log1p(rate * distance[:, None])
'''


def test_the_laws_hold_a_new_file(tmp_path):
    (tmp_path / "kerple.py").write_text(SCHEME)
    package = "research.networks.transformer.positions"
    laws = "tests/laws/test_position.py", "tests/laws/test_network.py"
    check_laws(package, tmp_path, 7, *laws, "-k", "kerple")
