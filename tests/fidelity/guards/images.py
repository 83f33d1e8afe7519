"""Guards of what reads images."""

import io

import jax
import jax.numpy as jnp
import numpy as np
from PIL import Image

from research import networks, objectives
from research.data.read.pictures import Row, decode_picture
from research.objectives.images import clip
from tests.fidelity.guards.registry import guard, phrase
from tests.fidelity.our_batches import VOCAB
from tests.fidelity.table import System
from tests.testing import fast_key
from tests.testing.example_batches import keys, texts
from tests.testing.model_options import model_options

SMALL = {"layers": 1, "width": 16, "heads": 2, "feedforward": 24, "max_length": 16}


def _towers():
    """The objective, the network of two towers, its parameters, and a batch."""
    objective = objectives.make_objective("clip", images="random", patch=4, width=8)
    net = networks.build(
        model_options(network="two_towers", **SMALL), objective.needs(VOCAB), VOCAB
    )
    batch = objective.corrupt(texts(10, [10, 3], VOCAB), keys(2), VOCAB, 12)
    run = lambda net: objective.loss(net, batch, fast_key.key(1))[0]  # noqa: E731
    params = networks.unbox(networks.init(net, run, fast_key.key(0)))
    return objective, net, params, batch


@guard("norm before the first block of the image")
def norm_before_blocks(system: System):
    return "norm" in _towers()[2]["image"]["embeddings"]


@guard("bias of a patch")
def bias_of_patch(system: System):
    image = _towers()[2]["image"]
    names = {
        "none": "bias" in image["embeddings"]["feature"],
        "the embedding of the patch's token": "embedding" in image["token"],
    }
    return phrase(names)


@guard("bias of the layer that makes a vector")
def bias_of_vectors(system: System):
    params = _towers()[2]
    layers = [params[tower]["head_vector"]["out"] for tower in ("image", "text")]
    return phrase({"none": all(layer.keys() == {"kernel"} for layer in layers)})


@guard("state of the text")
def state_of_text(system: System):
    batch = _towers()[3]
    at = np.take_along_axis(batch["token"], batch["pooled"], axis=1)
    return phrase({"at its end": bool((at == VOCAB.eos_id).all())})


@guard("size of the pictures")
def size_of_pictures(system: System):
    """Of a wide picture whose right half is white."""
    pixels = np.zeros((8, 16, 3), np.uint8)
    pixels[:, 8:] = 255
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "PNG")
    row = Row("", "", ("",), "", None, (), ())
    made, _ = decode_picture(out.getvalue(), row, 8, 8)
    whole = bool((made[:, :3] < 9).all() and (made[:, 5:] > 246).all())
    return phrase({"stretched to one size": whole})


@guard("bound of the scale")
def bound_of_scale(system: System):
    """Of a parameter beyond it, whose gradient leads farther."""
    grad = jax.grad(lambda x: -clip.within(x, 0.0, 1.0))(jnp.float32(2))
    value = float(clip.within(jnp.float32(2), 0.0, 1.0))
    return phrase({"in the loss": value == 1 and float(grad) == 0})
