"""Guards of ELMo: rows, words that are drawn, spelling, initial values, the mix."""

import jax
import numpy as np

from research import networks
from research.networks.shared import characters
from research.networks.shared.features import FeatureLayers
from research.objectives.lm.sampled_softmax import draw_words
from tests.fidelity.guards.registry import guard, phrase
from tests.fidelity.our_batches import VOCAB, full_rows, objective_of
from tests.fidelity.table import System
from tests.testing.example_batches import keys


def forward_rows(system: System):
    """A separator after each fourth token, and the arrays of such rows."""
    (objective, _), length = objective_of(system), 16
    example = full_rows(objective, length, 4)
    example.token[:, 3::4] = VOCAB.eos_id
    batch = objective.corrupt(example, keys(4), VOCAB, length)
    return objective, {k[len("forward_") :]: v for k, v in batch.items() if "for" in k}


@guard("state of a row")
def state_of_a_row(system: System):
    objective, _ = forward_rows(system)
    needs, spec = objective.needs(VOCAB), objective.text_spec(16)
    return phrase({"zeros": not needs.mems and not spec.contiguous})


@guard("input after the end of a sentence")
def input_after_the_end(system: System):
    _, batch = forward_rows(system)
    after = batch["token"][:, 4::4]
    return phrase(
        {
            "that of its end": (after == VOCAB.eos_id).all(),
            "the mark of a sentence's begin": (after == VOCAB.bos_id).all(),
        }
    )


@guard("words that are drawn")
def words_that_are_drawn(system: System):
    drawn = np.asarray(draw_words(jax.random.key(0), 64, 96))
    words = drawn[drawn < 96]
    each_once = len({*words.tolist()}) == len(words)
    return phrase(
        {
            "those of 8192 draws, each once": each_once and len(words) < 64,
            "8192, each once": each_once and len(words) == 64,
        }
    )


def spelled():
    found = characters.spell(("", "", "a"), 8)
    return np.asarray(characters.characters_of(found.inner, found.count))


@guard("spelling of special entries")
def spelling_of_special_entries(system: System):
    first, second = spelled()[:2, 1:4].tolist()
    ours = first == [256, 0, 259] and second == [256, 1, 259]
    return phrase({"256 and their number": ours, "256 and 257": second[:1] == [257]})


@guard("characters of unknown words")
def characters_of_unknown_words(system: System):
    """A vocabulary has one entry for all of them, which is no word."""
    return phrase({"those of a special entry": spelled()[1, 1] == characters.SPECIAL})


@guard("initial LSTM")
def initial_lstm(system: System):
    config = system.config(system.sizes[0]).model.copy_and_resolve_references()
    config.update(width=16, cell_width=64, input="table")
    config.update(joined_layers=0, joined_cell_width=0)
    options = networks.from_config(config)
    module = networks.build(options, networks.Needs(pattern="causal"), VOCAB)
    group = {"token": np.ones((1, 2), int), "segment": np.ones((1, 2), int)}
    init = jax.jit(
        lambda key: networks.init(module, lambda net: net.states(group), key)
    )
    blocks = networks.unbox(init(jax.random.key(0)))["stack"]["blocks"]
    most = float(np.abs(blocks["input_kernel"]).max())
    return phrase(
        {
            "uniform within 1 / sqrt(cells)": 0.124 < most <= 0.125,
            "Glorot's uniform values": 0.1 < most <= (6 / (32 + 256)) ** 0.5 < 0.124,
        }
    )


@guard("mix of layers")
def mix_of_layers(system: System):
    """Weights .2, -.1 and .5, and a scale of .8, of the layers of a position."""
    options = networks.from_config(system.config(system.sizes[0]).model)
    module = FeatureLayers(options, "mix", 0)
    layers = np.float32([[1, 2], [3, -1], [0, 4]])[:, None, None]
    params = {"layers": np.float32([0.2, -0.1, 0.5]), "scale": np.float32(0.8)}
    group = {"segment": np.ones((1, 1))}
    found = networks.apply(
        module, params, lambda net: net(group, layers[2], layers[:2])
    )
    expected = [0.83410971, 1.72353616]
    same = np.allclose(found[0, 0], expected, atol=1e-5)
    return phrase({"scale x sum of softmax(layers) x state": same})
