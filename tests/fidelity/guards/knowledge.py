"""Guards of what knows graphs: ranks, links, branches, polarities."""

import jax
import jax.numpy as jnp
import numpy as np

from research import networks, objectives
from research.contract.batch import CONSTANTS, WORD
from research.objectives.knowledge import entities, link_ranks, sentence_tree
from tests.fidelity.guards.registry import guard, phrase
from tests.fidelity.our_batches import VOCAB
from tests.fidelity.table import System
from tests.testing.compiled_apply import apply, initial_params
from tests.testing.example_batches import keys, texts
from tests.testing.model_options import model_options

SMALL = {"layers": 2, "width": 16, "heads": 2, "feedforward": 24, "token_types": 2}


def _link_rows(objective, link):
    """The batch of one text of ordinary tokens, each a word, with these links."""
    size = len(link)
    example = texts(size, [size], VOCAB)
    flags = np.full_like(example.flags, WORD)
    arrays = {"link": np.array([link], np.int32)}
    example = example._replace(flags=flags, arrays=arrays)
    return objective.corrupt(example, keys(1), VOCAB, size + 2)


@guard("rank of equal distances")
def rank_of_equal_distances(system: System):
    """Of three entities at the same distance."""
    query = {name: jnp.zeros((1, 2), jnp.int32) for name in link_ranks.query_specs()}
    table = {"known": jnp.zeros(1, jnp.int32), "slot": jnp.zeros(1, jnp.int32)}
    batch = query | {CONSTANTS: {link_ranks.NAME: table}}
    equal = (jnp.ones(3),) * 2
    rank = float(link_ranks.ranks(lambda _: equal, jnp.zeros(1), batch)[0, 0])
    names = {"the best": 1, "the mean of the best and the worst": 2}
    return phrase({name: rank == value for name, value in names.items()})


@guard("output of a layer of fusion")
def output_of_fusion(system: System):
    """With kernels of 0 the output is the norm of what entered, which has length 4."""
    options = model_options(network="fusion", norm_placement="post", **SMALL)
    net = networks.build(
        options, networks.Needs(pattern="full", input_features=4), VOCAB
    )
    group = {name: jnp.zeros((1, 3), jnp.int32) for name in _INPUTS}
    group |= {"segment": jnp.ones((1, 3), jnp.int32), "feature": jnp.ones((1, 3, 4))}
    run = lambda net: net.states(group)  # noqa: E731
    params = initial_params(net, run)
    blocks = params["stack"]["blocks"]["feedforward"]
    zeros = {name: jax.tree.map(jnp.zeros_like, blocks[name]) for name in blocks}
    params["stack"]["blocks"]["feedforward"] = zeros
    length = float(jnp.linalg.norm(apply(net, params, run)[0, 0]))
    names = {
        "norm(w + h W)": np.isclose(length, 4, rtol=1e-3),
        "gelu(h W)": length == 0,
    }
    return phrase(names)


_INPUTS = ("token", "position", "segment", "token_type", "rank", "reach")


@guard("token of a mention that has the entity")
def token_with_entity(system: System):
    """Of a mention of five tokens."""
    objective = objectives.make_objective("ernie_thu", entities="random", coef=0.0)
    batch = _link_rows(objective, [-1, 5, 0, 0, 0, 0, -1])
    at = batch["mention"][0][batch["mention_read"][0] > 0].tolist()
    return phrase({"the first": at == [2], "every other": at == [2, 4, 6]})


@guard("linear layer after the norm of the entity head")
def layer_after_norm(system: System):
    objective = objectives.make_objective("ernie_thu", entities="random")
    spec = objective.needs(VOCAB).heads["entity"]
    assert spec.norm and spec.hidden
    return phrase({"one": spec.size > 0, "none": spec.size == 0})


@guard("right candidates")
def right_candidates(system: System):
    """The loss of a score that is right for the first candidate alone is 0."""
    from research.objectives.knowledge.knowbert import link_losses

    score = jnp.array([[[9.0, -9.0, -9.0]]])
    loss, right = link_losses(score, score > -99, loss="margin", margin=0.2)
    is_first = bool(loss[0, 0] == 0 and right[0, 0])
    return phrase({"the most likely candidate of each name": is_first})


@guard("candidates of a masked mention")
def masked_candidates(system: System):
    """Of 4,000 mentions whose token is scored."""
    base = {"rate": 0.9, "mask_fraction": 1.0, "random_fraction": 0.0}
    objective = objectives.make_objective("knowbert", entities="random", base=base)
    example = texts(40, [40] * 200, VOCAB)
    link = np.where(np.arange(40) % 2, 7, -1)
    arrays = {"link": np.tile(link, (200, 1)).astype(np.int32)}
    batch = objective.corrupt(example._replace(arrays=arrays), keys(200), VOCAB, 42)
    name = batch["span_name"][(batch["span_name"] > 0) & (batch["link_weight"] == 0)]
    rates = [(name == entities.MASK).mean(), (name == 7).mean()]
    close = np.allclose(rates, [0.8, 0.1], atol=0.03)
    return phrase({"the mask .8, its own .1, others .1": close})


@guard("initial values of relations")
def initial_relations(system: System):
    objective = objectives.make_objective("kepler")
    net = networks.build(model_options(**SMALL), objective.needs(VOCAB), VOCAB)
    run = lambda net: net.head("relation", jnp.eye(1024))  # noqa: E731
    params = initial_params(net, run)
    (kernel,) = jax.tree.leaves(params)
    normal = bool(np.isclose(kernel.std(), 0.02, rtol=0.1) and kernel.max() > 0.05)
    return phrase({"N(0, 0.02), as other layers": normal})


@guard("words of the text")
def words_of_text(system: System):
    """From the left: of a head, and of the longer head that begins with it."""
    lexicon = VOCAB.lexicon
    first = lexicon.token[0, 0]
    pair = np.array([[first, -1], [first, first + 3]], np.int32)
    heads = lexicon._replace(token=pair, size=np.array([1, 2]), entry_type=0 * pair[0])
    from research.data.read import lexicon as lexicons

    token = np.array([[first, first + 3, first]], np.int32)
    flags = np.full(token.shape, WORD, np.uint8)
    found = lexicons.match(token, flags, np.array([3]), heads, eos_id=VOCAB.eos_id)
    longest = found.tolist() == [[1, -1, 0]]
    return phrase({"the longest heads from left to right": longest})


@guard("triples of a word")
def triples_of_word(system: System):
    triples = VOCAB.lexicon.triples
    made = sentence_tree.make_branches(VOCAB.lexicon, 1, "tail")
    first = [np.flatnonzero(triples.head == h)[0] for h in np.unique(triples.head)]
    expected = VOCAB.lexicon.token[triples.tail[first], 0]
    return phrase(
        {"the first of the file": np.array_equal(made.token[:, 0, 0], expected)}
    )


@guard("random words")
def random_words(system: System):
    """Of a text of one token: random tokens are others than its."""
    types = {"positive": "entity", "negative": "phrase"}
    objective = objectives.make_objective("sentilare", **types)
    example = texts(60, [60] * 50, VOCAB)
    token = np.full_like(example.token, VOCAB.ordinary_ids[0])
    batch = objective.corrupt(example._replace(token=token), keys(50), VOCAB, 62)
    shown = batch["token"][~VOCAB.is_special[batch["token"]]]
    others = np.unique(shown[shown != VOCAB.ordinary_ids[0]])
    return phrase(
        {"random tokens": len(others) > 20, "of another review": not len(others)}
    )


@guard("tables of heads")
def tables_of_heads(system: System):
    types = {"positive": "entity", "negative": "phrase"}
    needs = objectives.make_objective("sentilare", **types).needs(VOCAB)
    return phrase({"new ones": "polarity" in needs.heads})
