"""Guards of CVT: students, the teacher, words, batches, the average."""

from unittest import mock

import jax.numpy as jnp
import numpy as np
import optax

from research import networks
from research.networks.recurrent import two_lstms
from research.networks.shared.characters import NUM_CHARACTERS
from research.objectives.tasks import cvt
from research.optimize.moving_average import with_moving_average
from tests.fidelity.guards.registry import guard, phrase
from tests.fidelity.our_batches import VOCAB, objective_of
from tests.fidelity.table import System
from tests.testing.compiled_apply import apply
from tests.testing.trees import make_params, parameter_shapes


@guard("students")
def students(system: System):
    objective, _ = objective_of(system)
    heads = objective.needs(VOCAB).heads
    linear = [name for name, spec in heads.items() if spec.activation == "identity"]
    five = len(heads) == 6 and set(cvt.STUDENTS) < set(heads)
    return phrase({"five, all but full with relu": five and linear == ["full"]})


@guard("first and last word of a text")
def first_and_last_word(system: System):
    """Of three words, each between the ends of the text."""
    weight = np.float32([[0, 1, 1, 1, 0]])
    found = cvt.answers_of(jnp.ones((1, 5, 2)), weight)
    scored = {name: np.flatnonzero(each[1][0]).tolist() for name, each in found.items()}
    edges = scored["future"] == [1, 2] and scored["past"] == [2, 3]
    return phrase({"without future and without past": edges})


@guard("precision of the teacher")
def precision_of_the_teacher(system: System):
    answer, _ = cvt.answers_of(jnp.ones((1, 3, 2)), np.ones((1, 3)))["past"]
    return phrase({"32 bits": answer.dtype == "float32"})


@guard("words of the table")
def words_of_the_table(system: System):
    normalizer = system.config(system.sizes[0]).data.normalizer
    return phrase({"as they are spelled": normalizer == "none"})


@guard("initial word vectors")
def initial_word_vectors(system: System):
    objective, _ = objective_of(system)
    drawn = not objective.constants(VOCAB) and hasattr(objective, "vectors")
    words = (
        "drawn; with objective.vectors these, to which what a table of zeros learns is "
        "added"
    )
    return phrase({words: drawn})


def parameters(system: System):
    """Shapes of the parameters of what both directions give."""
    options = networks.from_config(system.config(system.sizes[0]).model)
    needs = networks.Needs(pattern="full", features=networks.VIEWS)
    module = networks.build(options, needs, VOCAB)
    group = {"token": np.ones((1, 2), int), "segment": np.ones((1, 2), int)}
    return options, parameter_shapes(module, lambda net: net.features(group))


@guard("factor of word vectors")
def factor_of_word_vectors(system: System):
    _, shapes = parameters(system)
    own = shapes["token"].keys() == {"table", "spelled"}
    return phrase({"none": own and shapes["token"]["table"].keys() == {"embedding"}})


@guard("input of the first layer")
def input_of_the_first_layer(system: System):
    options, shapes = parameters(system)
    width, token = options.embedding_width, shapes["token"]
    each = token["table"]["embedding"].shape[1], token["spelled"]["project"].shape[1]
    kernel = shapes["forward"]["stack"]["project"]["kernel"].shape
    projected = each == (width, width) and kernel == (2 * width, options.width)
    words = "both, each of model.embedding_width, projected to model.width"
    return phrase({words: projected})


@guard("characters of words")
def characters_of_words(system: System):
    return phrase({"bytes": NUM_CHARACTERS == 256 + 5})


@guard("sentences of a batch")
def sentences_of_a_batch(system: System):
    buckets = system.config(system.sizes[0]).data.length_buckets
    return phrase({"as many of any length": not buckets})


@guard("moving average of the parameters")
def average_of_the_parameters(system: System):
    """After a step from 0 to 1."""
    optimizer = with_moving_average(optax.identity(), 0.5)
    state = optimizer.init(jnp.zeros(()))
    _, state = optimizer.update(jnp.ones(()), state, jnp.zeros(()))
    average = float(state[-1].average)
    choices = {"of those after each step": 1, "begins with the initial ones": 0.5}
    return phrase({words: average == value for words, value in choices.items()})


@guard("dropout of the first layer's states")
def dropout_of_the_first_layer(system: System):
    """Whether heads read states that dropout hides from the next layer."""
    model = system.config(system.sizes[0]).model.copy_and_resolve_references()
    model.update(width=4, cell_width=4, joined_cell_width=4)
    options = networks.from_config(model)
    needs = networks.Needs(pattern="full", features=networks.VIEWS)
    module = networks.build(options, needs, VOCAB)
    group = {"token": np.ones((1, 2), int), "segment": np.ones((1, 2), int)}
    hidden = []

    def drop(module, x, place):
        hidden.append(place)
        return jnp.zeros_like(x)

    with mock.patch.object(two_lstms, "drop", drop):
        use = lambda net: net.features(group)  # noqa: E731
        features = apply(module, make_params(module, use), use)
    first = features[..., : 2 * options.width]
    two = {*hidden} == {"hidden"} and bool(np.all(first != 0))
    return phrase({"one draw for the next layer, another for heads": two})
