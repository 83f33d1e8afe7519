"""Guards of CoVe: what encoder and decoder read, the attention, the features."""

from unittest import mock

import jax
import numpy as np

from research import networks, objectives
from research.contract.batch import FEATURE
from research.files import vector_files
from research.networks.recurrent import lstm_encoder_decoder
from research.networks.recurrent.lstm_layer import LayerResult
from research.networks.recurrent.two_lstms import EncodedText
from research.networks.shared.features import FeatureLayers
from tests.fidelity.guards.registry import guard, phrase
from tests.fidelity.our_batches import VOCAB, batch_of, full_rows, objective_of
from tests.fidelity.table import System
from tests.testing.example_batches import keys


def small_network(system: System):
    """The experiment's network, of four units a direction, and its needs."""
    config = system.config(system.sizes[0]).model.copy_and_resolve_references()
    config.width = 4
    return networks.from_config(config), objective_of(system)[0].needs(VOCAB)


def vectors_of(*words: str) -> np.ndarray:
    """Rows of words, of which a file has none; its vectors have the variance 1."""
    others, vectors = ("one", "two"), np.float32([[1] * 50, [-1] * 50])
    return vector_files.rows_of(words, others, vectors)[0]


@guard("end of the encoder's text")
def end_of_the_encoders_text(system: System):
    batch = batch_of(system)[0]
    last = np.take_along_axis(
        batch["encoder_token"], batch["encoder_segment"].sum(1, keepdims=True) - 1, 1
    )
    ends = (last == VOCAB.eos_id).all() and not vectors_of("")[0].any()
    return phrase({"a special token, whose vector is 0": ends})


@guard("words without a vector")
def words_without_a_vector(system: System):
    most = float(np.abs(vectors_of("a")).max())
    return phrase(
        {
            "0": most == 0,
            "uniform within 0.1": 0 < most <= 0.1,
            "uniform, with the variance of the file's": 1.5 < most <= 3**0.5,
        }
    )


@guard("dropout of the decoder's inputs")
def dropout_of_the_decoders_inputs(system: System):
    """The places of dropout, of which that of the output is also what is fed."""
    options, needs = small_network(system)
    module, places = networks.build(options, needs, VOCAB), []
    group = {"token": np.ones((1, 2), int), "segment": np.ones((1, 2), int)}
    source = group | {FEATURE: np.ones((1, 2, needs.input_features), np.float32)}
    real = lstm_encoder_decoder.drop

    def drop(module, x, place):
        places.append(place)
        return real(module, x, place)

    with mock.patch.object(lstm_encoder_decoder, "drop", drop):
        read = lambda net: net.states(group, encoded=net.encode(source))  # noqa: E731
        jax.eval_shape(lambda: networks.init(module, read, jax.random.key(0)))
    return phrase({"once each": sorted(places) == ["embedding", "hidden", "output"]})


@guard("attentional state")
def attentional_state(system: System):
    """Three states of an encoder, and one of a decoder."""
    encoded = np.float32([[[1, 0], [0, 1], [1, 1]]])
    combine = np.float32([[0.2, 0.1, 0.3, 0], [-0.1, 0.4, 0, 0.2]])
    attended = lstm_encoder_decoder.Attended(
        encoded @ np.float32([[0.5, -0.2], [0.1, 0.3]]),
        encoded @ combine[:, :2].T,
        np.ones((1, 3), int),
    )
    found = lstm_encoder_decoder.attentional_state(
        np.float32([[0.6, -0.4]]), attended, np.ones((1, 3), bool), combine[:, 2:].T
    )
    words = "tanh(W2 [context; h]) with the context of softmax(H W h)"
    same = np.allclose(found, [[0.37266467, 0.08997175]], atol=1e-6)
    return phrase({words: same})


@guard("initial state of the decoder")
def initial_state_of_the_decoder(system: System):
    """Of two layers, in a text of three words and a place of padding."""
    options, _ = small_network(system)
    draw, layers = np.random.default_rng(0).normal, []
    for _ in range(2):
        both = (LayerResult(draw(size=(1, 4, 4)), draw(size=(1, 4, 4)), ()),) * 2
        layers.append(both)
    segment = np.array([[1, 1, 1, 0]])
    encoded = EncodedText(draw(size=(1, 4, 8)), segment, tuple(layers))
    begin = lstm_encoder_decoder.first_states(encoded, segment, options)
    same = all(
        np.allclose(
            begin[part][0, n, 0],
            [*layers[n][0][part][0, 2], *layers[n][1][part][0, 0]],
            atol=1e-6,
        )
        for part in range(2)
        for n in range(2)
    )
    return phrase({"the last states of both directions, layer by layer": same})


@guard("features of a task")
def features_of_a_task(system: System):
    options, _ = small_network(system)
    x = np.float32([[[3, 4]]])
    group = {"segment": np.ones((1, 1)), FEATURE: np.float32([[[1, 2]]])}
    found = networks.apply(
        FeatureLayers(options, "vectors_last", 0), {}, lambda net: net(group, x)
    )
    order = np.array_equal(found[0, 0], [1, 2, 3, 4])
    return phrase({"GloVe, then the last layer": order})


@guard("classifier of the paper")
def classifier_of_the_paper(system: System):
    readers = ("sequence_classification", "token_classification")
    fields = (objectives.objective_class(name).__dataclass_fields__ for name in readers)
    read = all("vectors_last" in each["features"].metadata["values"] for each in fields)
    has = "biattention" in networks.FOLDER.names()
    words = "none of its own: the objectives of tasks read the features"
    return phrase({words: read and not has, "a biattentive network": has})


@guard("pairs of longer texts")
def pairs_of_longer_texts(system: System):
    """Of a target of 200 words after a source of 30."""
    objective, length = objective_of(system)
    text = full_rows(objective, 30 + objective.target_length + 200, 4)
    text = text._replace(first_length=np.full(4, 30, np.int32))
    batch = objective.corrupt(text, keys(4), VOCAB, length)
    sizes = {*batch["weight"].sum(axis=1).tolist()}
    return phrase(
        {
            "cut, each text by itself": sizes == {objective.target_length},
            "left out": sizes == {0},
        }
    )


@guard("padding in the decoder's attention")
def padding_in_attention(system: System):
    """Whether a state more, of padding, changes what is attended to."""
    encoded = np.float32([[[1, 0], [0, 1], [0, 0]]])
    hidden, kernel = np.float32([[0.6, -0.4]]), np.eye(2, dtype=np.float32)

    def state(num):
        part = encoded[:, :num]
        attended = lstm_encoder_decoder.Attended(part, part, np.ones((1, num), int))
        attends = np.arange(num)[None] < 2
        return lstm_encoder_decoder.attentional_state(hidden, attended, attends, kernel)

    same = np.allclose(state(2), state(3))
    return phrase({"left out": same, "counted, with states of 0": not same})
