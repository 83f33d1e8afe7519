"""Guards of what reads images."""

import functools
import io

import jax
import jax.numpy as jnp
import numpy as np
from PIL import Image

from research import networks, objectives
from research.data.read.pictures import Row, decode_picture
from research.networks.images import two_streams
from research.networks.shared.dense_attention import AttentionInputs
from research.networks.transformer.attention import prepare
from research.networks.transformer.blocks import Block
from research.objectives.images import clip, image_text
from tests.fidelity import table
from tests.fidelity.guards.registry import guard, phrase
from tests.fidelity.our_batches import VOCAB
from tests.fidelity.table import System
from tests.testing import fast_key
from tests.testing.compiled_apply import apply, initial_params
from tests.testing.example_batches import keys, texts
from tests.testing.model_options import model_options

SMALL = {"layers": 1, "width": 16, "heads": 2, "feedforward": 24, "max_length": 16}


@functools.cache
def _towers():
    """The objective, the network of two towers, its parameters, and a batch."""
    objective = objectives.make_objective("clip", images="random", patch=4, width=8)
    net = networks.build(
        model_options(network="two_towers", **SMALL), objective.needs(VOCAB), VOCAB
    )
    batch = objective.corrupt(texts(10, [10, 3], VOCAB), keys(2), VOCAB, 12)
    run = lambda net: objective.loss(net, batch, fast_key.key(1))[0]  # noqa: E731
    return objective, net, initial_params(net, run), batch


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


def _pairs(count: int = 400, length: int = 12, **fields):
    """The objective `image_text` and its batch of random texts and pictures."""
    objective = objectives.make_objective(
        "image_text", **{"images": "random", "patch": 4} | fields
    )
    example = texts(length - 2, [length - 2] * count, VOCAB)
    return objective, objective.corrupt(example, keys(count), VOCAB, length)


def _single_stream(objective, batch, **model):
    """The parameters of one transformer that reads both."""
    options = SMALL | {"max_length": 32, "token_types": 2} | model
    net = networks.build(model_options(**options), objective.needs(VOCAB), VOCAB)
    run = lambda net: objective.loss(net, batch, fast_key.key(1))[0]  # noqa: E731
    return initial_params(net, run)


@guard("norm of the text's embeddings")
def norm_of_text(system: System):
    params = _single_stream(*_pairs(2))
    return phrase({"none": "norm" not in params["embeddings"]})


@guard("half of a batch")
def half_of_batch(system: System):
    label = _pairs()[1]["match_label"]
    exact = label.mean() == 0.5
    names = {
        "exactly": exact,
        "in the mean": not exact and abs(label.mean() - 0.5) < 0.1,
    }
    return phrase(names)


@guard("token of a patch")
def token_of_patch(system: System):
    token = _pairs(2)[1]["token"][:, 13:]
    return phrase({"the mask's": bool((token == VOCAB.mask_id).all())})


@guard("words that are moved")
def words_moved(system: System):
    """By the gradient of the transport, of a text of five tokens in a row of eight."""
    objective, _ = _pairs(1, alignment=0.1)
    example = texts(6, [5], VOCAB)
    batch = objective.corrupt(example, keys(1), VOCAB, 8)
    text = batch["match_segment"][:, :8] > 0
    word = image_text.words_of(jnp.asarray(text))[0].tolist()
    inner = word == [False, *[True] * 5, False, False]
    return phrase({"all but the first and the last": inner})


@guard("features of a region")
def features_of_region(system: System):
    objective, _ = _pairs(2, regions="boxes")
    return phrase({"its pixels": objective.needs(VOCAB).input_features == 48})


@guard("captions of a row")
def captions_of_row(system: System):
    spec = objectives.make_objective("image_text", images="random").text_spec(12)
    return phrase({"one, with its picture or another one": not spec.has_pairs})


@guard("the whole picture")
def whole_picture(system: System):
    _, batch = _pairs(2, regions="boxes", match="joint")
    first = batch["pixels"][:, 0]
    return phrase({"before its regions": bool((first.std(axis=1) > 1).all())})


@guard("tables of regions")
def tables_of_regions(system: System):
    _, batch = _pairs(2, regions="boxes", match="joint")
    position = batch["position"][:, 12:][batch["segment"][:, 12:] > 0]
    one = bool((position == 12).all())
    return phrase({"a row of the text's tables, which begins anew": one})


@guard("what is replaced")
def what_is_replaced(system: System):
    """Beside the same texts without matching."""
    joint, alone = (_pairs(match=match)[1] for match in ("joint", "none"))
    same = np.array_equal(joint["token"], alone["token"])
    pixels = np.array_equal(joint["pixels"], alone["pixels"])
    return phrase({"the picture": same and not pixels, "the caption": not same})


@guard("token of a region")
def token_of_region(system: System):
    _, batch = _pairs(2, regions="boxes", match="joint")
    read = batch["token"][:, 13:][batch["segment"][:, 13:] > 0]
    return phrase({"the mask's": bool((read == VOCAB.mask_id).all())})


@guard("first region")
def first_region(system: System):
    return phrase({"the whole picture": whole_picture(system) == "before its regions"})


@functools.cache
def _streams(**model):
    """The network of two streams, a batch's group, and random parameters."""
    objective, batch = _pairs(2, regions="boxes", match="joint")
    options = SMALL | {"max_length": 32, "token_types": 2, "image_heads": 2}
    options |= {"network": "two_streams", "norm_placement": "post", "co_layers": 1}
    options |= model
    net = networks.build(model_options(**options), objective.needs(VOCAB), VOCAB)
    group = objective.group(jax.tree.map(jnp.asarray, batch))
    run = lambda net: net.states(group)  # noqa: E731
    return net, group, initial_params(net, run)


@guard("width of the image's stream")
def width_of_image(system: System):
    net, group, params = _streams()
    size = apply(net, params, lambda net: net.states(group)).shape[-1]
    return phrase({"that of the text": size == net.options.width})


@guard("states that co-attention reads")
def states_of_co_attention(system: System):
    """Of co-attention whose streams have the same states: with parameters for both
    directions the image has what the text has; with others, those of the text's
    co-attention change no state of the image."""
    shared = table.value_at(system.config("base"), "model.cross") == "shared"
    net, group, params = _streams(cross="shared" if shared else "separate")
    if shared:
        return phrase({"the old ones of both streams": _reads_old(net, params)})
    image = slice(-net.num_image, None)

    def states(changed):
        return apply(net, changed, lambda net: net.states(group))[:, image]

    changed = jax.tree.map(jnp.copy, params)
    kernel = changed["stack"]["fusion"]["text"]["feedforward"]["out"]["kernel"]
    changed["stack"]["fusion"]["text"]["feedforward"]["out"]["kernel"] = 9 * kernel + 1
    same = bool((states(changed) == states(params)).all())
    return phrase({"the old ones of both streams": same, "new ones": not same})


def _reads_old(net, params) -> bool:
    """Whether the image's stream ends as that of the text and then its own block."""
    x = jax.random.normal(fast_key.key(2), (2, 5, net.options.width))
    segment = {"segment": jnp.ones((2, 5), jnp.int32)}
    inputs = prepare(net, net.options, AttentionInputs(segment, segment))
    upper = jax.tree.map(lambda leaf: leaf[0], params["stack"]["fusion"])
    block = two_streams.CoBlock(net.options, net.options)
    text, image = block.apply({"params": upper}, x, x, [inputs] * 2, inputs)
    own = Block(net.options).apply({"params": upper["image_block"]}, text, inputs)
    return bool(jnp.allclose(image, own.states, atol=1e-6))


@guard("attention to the other stream")
def attention_to_other(system: System):
    params = _streams(cross="shared")[2]["stack"]["fusion"]
    return phrase(
        {"one for both directions": params.keys() == {"cross", "image_block"}}
    )


REGIONS = {"regions": "boxes", "region_rate": 0.3, "match": "joint"}


@guard("attributes of a region")
def attributes_of_region(system: System):
    objective, _ = _pairs(2, **REGIONS, region_regression="l2", answers="label")
    known = {"match", "region", "regression", "answer"}
    return phrase({"none": objective.needs(VOCAB).heads.keys() == known})


@guard("weight of a class")
def weight_of_class(system: System):
    weight = _pairs(40, **REGIONS, classified="all")[1]["region_weight"]
    return phrase({"1": {*weight.ravel().tolist()} == {0, 1}})


@guard("layers of classes and features")
def layers_of_classes(system: System):
    params = _single_stream(*_pairs(2, **REGIONS, region_regression="l2"))
    names = ("head_region", "head_regression")
    return phrase({"separate": all("dense" in params[name] for name in names)})


@guard("layers of the answer")
def layers_of_answer(system: System):
    params = _single_stream(*_pairs(2, answers="label"))
    return phrase({"the pooler alone": params["head_answer"].keys() == {"out"}})


@guard("pairs whose answer counts")
def pairs_with_answer(system: System):
    batch = _pairs(match="joint", answers="label")[1]
    counts, matched = batch["answer_weight"] > 0, batch["match_label"] == 1
    return phrase({"those that match": counts.any() and not counts[~matched].any()})


@guard("number of words chosen")
def number_chosen(system: System):
    count = (_pairs()[1]["weight"] > 0).sum(axis=1)
    return phrase({"a rounded fraction of each text": len({*count.tolist()}) == 1})


@guard("position of a region")
def position_of_region(system: System):
    """Of texts that are shorter than rows."""
    objective, _ = _pairs(1, regions="boxes", match="none")
    batch = objective.corrupt(texts(10, [4], VOCAB), keys(1), VOCAB, 12)
    position = batch["position"][:, 12:][batch["segment"][:, 12:] > 0]
    names = {"the longest text's": 12, "the length of the text": 6}
    return phrase({name: (position == at).all() for name, at in names.items()})


@guard("end of a row")
def end_of_row(system: System):
    objective, batch = _pairs(2, regions="boxes", match="none")
    read = objective.regions_read(np.zeros(2, int)).here.shape[1]
    return phrase({"none": batch["token"].shape[1] == 12 + read})


@guard("texts without pictures")
def texts_without_pictures(system: System):
    arrays = _pairs(1)[0].text_spec(12).arrays
    return phrase({"none": arrays == ("image",)})


@guard("what a row's length counts")
def what_length_counts(system: System):
    objective, _ = _pairs(1, regions="boxes")
    count = objective.batch_spec(12)["token"].shape[0] - objective.num_positions()
    return phrase({"tokens": count == 12})


@guard("scale of the norm of features")
def scale_of_norm(system: System):
    objective, batch = _pairs(2, regions="boxes", match="none", text_reads="picture")
    params = _single_stream(objective, batch, feature_layers="relu")["embeddings"]
    names = ("text_feature_norm", "image_feature_norm")
    zero = all((params[name]["scale"] == 0).all() for name in names)
    return phrase({"0 at first, of texts and of regions": zero})
