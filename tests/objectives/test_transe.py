"""transe: the specification's distances and losses, negatives, and filtered ranks."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from experiments.studies import held_out_entities
from research import networks, objectives
from research.contract.batch import CONSTANTS, EVALUATION_STEP
from research.contract.errors import UserError
from research.data.read import lexicon
from research.objectives.knowledge import graph, link_ranks
from tests.testing import small_data
from tests.testing.example_batches import keys, texts, vocab
from tests.testing.model_options import model_options

VOCAB = vocab(200)
TRIPLES = VOCAB.lexicon.triples
ENTITIES = VOCAB.lexicon.token[:, 0]
RELATIONS = TRIPLES.relation_token[:, 0]
WIDTH = 2
TABLES = model_options(network="tables", width=WIDTH, layers=1)


def rows_of(objective, triples, length=20, step=0):
    """The batch of triples (head, relation, tail) of entity and relation numbers."""
    head, relation, tail = np.array(triples).T
    example = texts(3, [3] * len(triples), VOCAB)
    token = np.stack([ENTITIES[head], RELATIONS[relation], ENTITIES[tail]], axis=1)
    example = example._replace(token=token, step=example.step + step)
    return objective.corrupt(example, keys(len(triples)), VOCAB, length)


def apply(objective, table, fn):
    """`fn(net)` of a network whose vectors are given."""
    net = networks.build(TABLES, objective.needs(VOCAB), VOCAB)
    rows = np.zeros((256, WIDTH), np.float32)
    rows[: len(table)] = table
    return networks.apply(net, {"token": {"embedding": jnp.asarray(rows)}}, fn)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"normalize": "all", "norm": 1, "margin": 1.0}, 0.7),
        ({"normalize": "all", "norm": 1, "margin": 5.0}, 4.0),
        ({"normalize": "all", "norm": 2, "margin": 1.0}, 0.688704),
        ({"normalize": "all", "norm": 2, "margin": 5.0}, 4.396855),
        # distances 1, 13 and 5: the hinges of margin 5 are 0 and 1
        ({"normalize": "none", "norm": 1, "margin": 5.0}, 0.5),
        # -log sigmoid(4 - 1), and of 9.848858 - 4 and 3.605551 - 4 with equal weights
        (
            {
                "normalize": "none",
                "norm": 2,
                "margin": 4.0,
                "loss_type": "sigmoid",
                "temperature": 0.0,
            },
            0.2524373,
        ),
    ],
)
def test_losses_are_those_of_the_specification(fields, expected):
    objective = objectives.make_objective("transe", **fields)
    batch = rows_of(objective, [(0, 0, 1)], length=5)
    # h=(3, 4), r=(1, 0), t=(4, 3), a false tail (0, -5), a false head (0, 5)
    table = np.zeros((VOCAB.size, WIDTH))
    table[30:35] = [(3, 4), (1, 0), (4, 3), (0, -5), (0, 5)]
    batch |= {"token": np.arange(30, 35)[None], "replaces_head": np.array([[0, 1]])}
    terms, _ = apply(objective, table, lambda net: objective.loss(net, batch, None))
    assert terms["transe"].total / terms["transe"].weight == pytest.approx(
        expected, abs=1e-6
    )


@pytest.mark.parametrize("replaced", ["bern", "uniform"])
def test_negatives_are_no_training_triples(replaced):
    """They are drawn among all entities; an end is replaced as often as it is to be."""
    known = graph.graph_of(VOCAB)
    trained = {*zip(*(each[TRIPLES.file == 0] for each in TRIPLES[:3]), strict=True)}
    objective = objectives.make_objective("transe", replaced=replaced)
    chosen = sorted(trained)[:40]
    batch = rows_of(objective, chosen, length=3 + 400)
    entity_of = dict(zip(ENTITIES, range(len(ENTITIES)), strict=True))
    drawn = np.vectorize(entity_of.get)(batch["token"][:, 3:])
    assert len(np.unique(drawn)) == len(ENTITIES)
    sides = batch["replaces_head"]
    for (head, relation, tail), entities, side in zip(
        chosen, drawn, sides, strict=True
    ):
        made = {
            (e, relation, tail) if s else (head, relation, e)
            for e, s in zip(entities, side, strict=True)
        }
        assert not made & trained
    relation = np.array(chosen)[:, 1]
    rates = known.head_rates[relation] if replaced == "bern" else 0.5
    np.testing.assert_allclose(sides.mean(axis=1), rates, atol=0.11)


def test_bern_replaces_the_end_that_has_more_partners():
    """Relation 0 has 4 tails per head, 1 head per tail; of test triples nothing."""
    head, tail = np.array([0, 0, 0, 0, 1, 1, 1, 1]), np.arange(8)
    triples = TRIPLES._replace(
        head=np.append(head, 5), tail=np.append(tail, 6), relation=np.zeros(9, int)
    )
    triples = triples._replace(file=np.append(np.zeros(8, int), 1))
    rates = graph.Graph(VOCAB.lexicon._replace(triples=triples)).head_rates
    np.testing.assert_allclose(rates[:2], [4 / 5, 0.5])


def test_ranks_are_filtered_and_ties_have_the_mean():
    objective = objectives.make_objective("transe", normalize="none")
    rng = np.random.default_rng(0)
    table = rng.integers(-2, 3, (VOCAB.size, WIDTH))  # so that many distances are equal
    chosen = [*zip(*(each[:60] for each in TRIPLES[:3]), strict=True)]
    batch = rows_of(objective, chosen, step=EVALUATION_STEP)
    spec = objective.constants(VOCAB)[link_ranks.NAME]
    batch |= {CONSTANTS: {link_ranks.NAME: spec.values}}
    found = apply(objective, table, lambda net: objective.predictions(net, batch))
    true = {*zip(*TRIPLES[:3], strict=True)}
    entities = range(len(ENTITIES))
    for ranks, (head, relation, tail) in zip(found["ranks"], chosen, strict=True):
        for rank, right, triples in (
            (ranks[0], head, [(e, relation, tail) for e in entities]),
            (ranks[1], tail, [(head, relation, e) for e in entities]),
        ):
            distances = np.array(
                [
                    np.abs(
                        table[ENTITIES[h]] + table[RELATIONS[r]] - table[ENTITIES[t]]
                    ).sum()
                    for h, r, t in triples
                ]
            )
            kept = np.array([t not in true for t in triples])
            kept[right] = True
            better = (distances[kept] < distances[right]).sum()
            equal = (distances[kept] == distances[right]).sum()
            assert rank == 1 + better + (equal - 1) / 2


def test_a_graph_that_is_all_alike_is_ranked_in_the_middle():
    """Equal vectors, and a triple with an entity that the graph does not have."""
    objective = objectives.make_objective("transe")
    batch = rows_of(objective, [(0, 0, 1)], step=EVALUATION_STEP)
    spec = objective.constants(VOCAB)[link_ranks.NAME]
    batch |= {CONSTANTS: {link_ranks.NAME: spec.values}}
    batch["known_count"] = 0 * batch["known_count"]
    middle = (len(ENTITIES) + 1) / 2
    for answer in (batch["answer"], 0 * batch["answer"] - 1):
        row = batch | {"answer": answer}
        found = apply(
            objective, np.ones((1, 1)), lambda net, r=row: objective.predictions(net, r)
        )
        assert found["ranks"].tolist() == [[middle, middle]]


GRAPH = "a\tlikes\tb c\nb c\tlikes\td\na\tknows\td\n"


def open_graph(folder, lines=GRAPH, valid="a\tlikes\td\n", **keys):
    """A run's data of triples."""
    for name, text in (("train", lines), ("valid", valid)):
        (folder / f"{name}.triples").write_text(text)
    config = small_data.config("embedded", folder / "cache")
    config.objective.name = "transe"
    config.data.update(vocabulary="words", vocabulary_size=10, separator="none")
    config.data.update(sentinels=0, format="triples", length=6, stride=0, corpus="")
    for name in ("train", "valid"):
        config.data[name] = str(folder / f"{name}.triples")
    config.data.lexicon = f"{config.data.train},{config.data.valid}"
    config.data.update(keys)
    return small_data.open_small(config)[0]


def test_a_file_of_triples_is_read_as_words(tmp_path):
    data = open_graph(tmp_path)
    assert {*data.vocab.spelling} == {"", "a", "b_c", "d", "<likes>", "<knows>"}
    triples = data.vocab.lexicon.triples
    assert triples.file.tolist() == [0, 0, 0, 1] and len(triples.relation_size) == 2
    (batch,) = data.eval.evaluation()
    assert batch["triple_weight"].sum() == 1


def test_openke_files_have_the_tail_before_the_relation(tmp_path):
    (tmp_path / "a.txt").write_text("2\n0 1 0\n1 2 0\n")
    found = lexicon.read_triples(tmp_path / "a.txt")
    assert found == [("0", "0", "1"), ("1", "0", "2")]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"valid": "a\thates\td\n"}, "has a relation that is unknown"),
        ({"valid": "a\tlikes\n"}, "valid.triples:1: a triple is head<TAB>relation"),
        ({"vocabulary_size": 9}, "that is unknown: each must be in a training triple"),
        ({"lexicon": ""}, "needs a knowledge graph: set data.lexicon"),
        ({"lexicon_texts": "texts.tsv"}, "has no text of 'b c'"),
    ],
)
def test_wrong_graphs_are_refused_in_one_line(tmp_path, monkeypatch, change, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "texts.tsv").write_text("a\ta\n")
    with pytest.raises(UserError) as error:
        data = open_graph(tmp_path, **change)
        [*data.eval.evaluation(), data.train.batch(0)]
    assert message in str(error.value) and "\n" not in str(error.value)


@pytest.mark.long
def test_32_triples_are_learnt_by_heart():
    objective = objectives.make_objective("transe", normalize="none", margin=1.0)
    count = min(32, len(TRIPLES.head))
    known = [each[:count] for each in (TRIPLES.head, TRIPLES.relation, TRIPLES.tail)]
    batch = rows_of(objective, [*zip(*known, strict=True)])
    tables = model_options(network="tables", width=16, layers=1)
    net = networks.build(tables, objective.needs(VOCAB), VOCAB)
    params = {
        "token": {"embedding": 0.1 * jax.random.normal(jax.random.key(0), (256, 16))}
    }
    optimizer = optax.adam(0.03)

    def loss(params):
        run = lambda net: objective.loss(net, batch, None)[0]  # noqa: E731
        term = networks.apply(net, params, run)["transe"]
        return term.total / term.weight

    def step(carry, _):
        params, state = carry
        value, grads = jax.value_and_grad(loss)(params)
        updates, state = optimizer.update(grads, state)
        return (optax.apply_updates(params, updates), state), value

    carry = params, optimizer.init(params)
    values = jax.lax.scan(step, carry, length=300)[1]
    assert values[0] > 0.8 and values[-1] < 0.1


def test_held_out_entities_are_in_no_training_triple():
    rng = np.random.default_rng(0)
    files = [[tuple(map(str, t)) for t in rng.integers(0, 60, (200, 3))] for _ in "ab"]
    parts = held_out_entities.split(files, 0.2, limit=10**6)
    trained = {end for h, _, t in parts["train"] for end in (h, t)}
    held = {str(n) for n in range(60) if held_out_entities.is_held_out(str(n), 0.2)}
    assert 3 < len(held) < 25 and not trained & held
    assert parts["unseen"] and {*parts["train"]} <= {*files[0]}
    for head, _, tail in parts["unseen"]:
        assert (head in held) != (tail in held) and trained & {head, tail}
    assert {*parts["seen"]} <= {*files[1]}
