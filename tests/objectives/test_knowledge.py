"""ERNIE, KnowBERT, KEPLER and SentiLARE: golden values, what is hidden, what is learnt.

Golden values are of the specification, computed in float64.
"""

import json
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from experiments.studies import relations
from launch.commands import link as link_command
from research import networks, objectives
from research.contract.batch import WORD
from research.contract.errors import UserError
from research.data.read import entity_links
from research.data.read.formats import AUTO, LineError
from research.data.read.formats.linked import Format
from research.networks.knowledge.fusion import FusedFeedForward
from research.objectives.knowledge import entities, graph, polarity
from research.objectives.knowledge.ernie_thu import entity_loss
from research.objectives.knowledge.knowbert import link_losses
from tests.testing import small_data
from tests.testing.example_batches import keys, texts
from tests.testing.model_options import model_options
from tests.testing.objective_cases import VOCAB, make_constants, make_network
from tests.testing.objective_variants import VARIANTS

ROWS = 32


def test_a_layer_of_fusion_has_the_golden_values():
    """Two tokens of three values, of which the first has an entity."""
    options = model_options(network="fusion", width=3, feedforward=3, heads=1)
    w = jnp.array([[[1, -0.5, 0.25], [0.2, 0.8, -1]]])
    to_h = np.array([[1, 0, 0.5], [0, 1, -0.5], [0.5, 0.5, 0]], np.float32)
    e_to_h = np.array([[0.5, 0, 1], [0, 0.5, -1], [1, 0, 0]])
    from_h = np.array([[1, 0, 0.5], [0, 1, 0], [0.5, 0.5, -1]], np.float32)
    entity = np.array([[[0.5, 1, -0.5], [0, 0, 0]]])
    params = {
        "in": {"kernel": to_h, "bias": np.array([0.1, 0, -0.1], np.float32)},
        "out": {"kernel": from_h, "bias": np.array([0, 0.1, 0], np.float32)},
    }
    layer = FusedFeedForward(options)
    h, x = layer.apply({"params": params}, w, jnp.asarray(entity @ e_to_h, w.dtype))
    expected = [[0.814339, 0.068717, 0.083943], [-0.084148, 0.185373, -0.137831]]
    np.testing.assert_allclose(h[0], expected, atol=1e-6)

    def norm(y):
        return (y - y.mean(-1, keepdims=True)) / y.std(-1, keepdims=True)

    expected = [[1.296487, -1.137468, -0.159020], [-0.007797, 1.228625, -1.220828]]
    np.testing.assert_allclose(norm(np.asarray(x + w))[0], expected, atol=1e-5)


def test_the_loss_of_an_entity_is_the_golden_value():
    """Of the second of three candidates, of which the first is none."""
    vectors = jnp.array([[0, 0, 0], [0.5, 1, -0.5], [-1, 0.5, 1]])
    query = jnp.array([[[0.2, -0.4, 0.6]] * 3])
    answer, weight = jnp.array([[1, 2, 1]]), jnp.array([[1.0, 0, 0]])
    term, _ = entity_loss(query, answer, weight, vectors)
    assert term.total == pytest.approx(1.618925, abs=1e-6) and term.weight == 1
    apart = jnp.array([[1], [2]]), jnp.array([[1.0], [0.0]])
    term, _ = entity_loss(query[0, :2, None], *apart, vectors, in_batch=True)
    assert term.total == pytest.approx(1.618925, abs=1e-6)
    term, _ = entity_loss(query[0, :2, None], *apart, vectors)
    assert term.total == pytest.approx(np.log(1 + np.exp(0.6)), abs=1e-6)


def test_glosses_have_the_golden_polarity():
    found = polarity.attend_to_glosses([0.4, 0.1, -0.2], [1, 2, 3], [0.5, -0.25, 0])
    expected = [0.450210, 0.294334, 0.255456]
    np.testing.assert_allclose(found.weight, expected, atol=1e-6)
    assert found.score == pytest.approx(0.151522, abs=1e-6)
    assert polarity.POLARITIES[found.polarity] == "positive"


def test_the_linkers_margin():
    """Scores .5, .1 and -1, of which the third is absent, with margin .2."""
    score, there = jnp.array([[[0.1, 0.5, -1]]]), jnp.array([[[True, True, False]]])
    loss, right = link_losses(score, there, loss="margin", margin=0.2)
    assert loss[0, 0] == pytest.approx((0.1 + 0.7) / 2) and not right[0, 0]
    loss, _ = link_losses(score, there, loss="softmax", margin=0.2)
    assert loss[0, 0] == pytest.approx(np.log(1 + np.exp(0.4)), abs=1e-6)


@pytest.mark.parametrize(
    ("tag", "expected"),
    [("VERB", "v"), ("VBZ", "v"), ("s", "a"), ("ADP", "u"), ("NNS", "n"), ("SYM", "u")],
)
def test_tags_have_a_part_of_speech(tag, expected):
    assert polarity.PARTS_OF_SPEECH[polarity.tag_class(tag)] == expected


def linked_rows(objective, links, num=200, size=40):
    """The batch of texts of which all have the same links."""
    example = texts(size, [size] * num, VOCAB)
    arrays = {"link": np.tile(links, (num, 1)).astype(np.int32)}
    example = example._replace(arrays=arrays)
    return objective.corrupt(example, keys(num), VOCAB, size + 2)


def test_a_masked_mention_does_not_show_its_candidates():
    """With another name in the text the row is the same, but where it is to show it:
    of one in ten masked mentions, and of all others."""
    masks = {"rate": 0.4, "mask_fraction": 1.0, "random_fraction": 0.0}
    objective = objectives.make_objective("knowbert", entities="random", base=masks)
    mention = np.arange(40) % 5
    one, two = (
        linked_rows(objective, np.where(mention == 1, n, np.where(mention == 2, 0, -1)))
        for n in (7, 8)
    )
    assert (one["span_end"] - one["span_start"])[one["span_name"] > 0].max() == 1
    hidden = (one["link_weight"] == 0) & (one["span_name"] > 0)
    at = [one["token"], one["span_start"]], [one["token"], one["span_end"]]
    masked = np.any(
        [np.take_along_axis(*pair, axis=1) == VOCAB.mask_id for pair in at], axis=0
    )
    np.testing.assert_array_equal(hidden, masked & (one["span_name"] > 0))
    differs = one["span_name"] != two["span_name"]
    assert differs[(one["span_name"] > 0) & ~hidden].all()
    assert differs[hidden].mean() == pytest.approx(0.1, abs=0.03)
    assert (one["span_name"][hidden] == entities.MASK).mean() == pytest.approx(
        0.8, abs=0.04
    )


def test_an_entity_is_at_the_first_token_of_its_mention():
    """5 % of the mentions read another one, 15 % none; all are scored."""
    objective = objectives.make_objective("ernie_thu", entities="random")
    mention = np.arange(40) % 4
    links = np.where(mention == 0, 9, np.where(mention < 3, 0, -1))
    batch = linked_rows(objective, links, num=400)
    assert (batch["mention"] == 1 + 4 * np.arange(10)).all()
    assert (batch["mention_name"] == 9).all() and batch["mention_weight"].all()
    read = batch["mention_read"]
    assert (read == 0).mean() == pytest.approx(0.15, abs=0.02)
    assert ((read != 0) & (read != 9)).mean() == pytest.approx(0.05, abs=0.015)


def test_hidden_words_have_no_polarity_in_the_input():
    """Those with a polarity are masked twice as often; their targets keep it."""
    types = {"positive": "entity", "negative": "phrase", "early_fusion": 0.5}
    objective = objectives.make_objective("sentilare", **types)
    example = texts(60, [60] * 300, VOCAB)
    example = example._replace(
        flags=np.full_like(example.flags, WORD), label=np.arange(300) % 3
    )
    batch = objective.corrupt(example, keys(300), VOCAB, 62)
    known = polarity.word_polarity(example, VOCAB, ("phrase", "entity"))
    used, at = batch["weight"] > 0, batch["scored"]
    row, slot = np.nonzero(used)
    column = at[row, slot]
    answer = known[row, column - 1]
    scored = batch["polarity_weight"][row, slot] > 0
    np.testing.assert_array_equal(scored, answer != polarity.NEUTRAL)
    np.testing.assert_array_equal(
        batch["answer_polarity"][row, slot][scored], answer[scored]
    )
    hidden = batch["token"][row, column] != batch["target"][row, slot]
    read = batch["word_polarity"][row, column]
    assert (read[hidden] == polarity.NEUTRAL).all() and 0.85 < hidden.mean() < 0.95
    np.testing.assert_array_equal(read[~hidden], answer[~hidden])
    chosen = np.zeros_like(known, bool)
    chosen[row, column - 1] = True
    assert chosen[known != polarity.NEUTRAL].mean() == pytest.approx(0.3, abs=0.02)
    assert chosen[known == polarity.NEUTRAL].mean() == pytest.approx(0.15, abs=0.02)
    fused = (batch["level"] < 5).any(axis=1)
    np.testing.assert_array_equal(fused, batch["label_weight"] == 0)
    assert fused.mean() == pytest.approx(0.5, abs=0.1)


def test_a_token_has_the_part_of_speech_of_its_word():
    """Tags are at the first tokens of words; those of hidden words are predicted."""
    known = VOCAB._replace(labels=("NOUN", "VERB"))
    types = {"positive": "entity", "negative": "phrase", "pos": "tags"}
    objective = objectives.make_objective("sentilare", **types)
    assert objective.text_spec(42).arrays == ("tags",)
    assert objective.needs(known).heads["pos"].size == 5
    example = texts(40, [40] * 50, known)
    tag = np.tile(np.where(np.arange(40) % 2, -1, np.arange(40) // 2 % 2), (50, 1))
    tag[:, 0] = -1  # before the first word
    flags = np.where(np.arange(40) % 2, 0, WORD).astype(np.uint8)
    example = example._replace(arrays={"tags": tag}, flags=np.tile(flags, (50, 1)))
    batch = objective.corrupt(example, keys(50), known, 42)
    noun, verb, other = 3, 0, polarity.OTHER
    expected = np.tile(np.repeat([noun, verb], 2), 10)
    expected = np.r_[other, other, other, expected[2:], other]
    row, slot = np.nonzero(batch["weight"])
    column = batch["scored"][row, slot]
    np.testing.assert_array_equal(batch["answer_pos"][row, slot], expected[column])
    hidden = np.zeros_like(batch["token"], bool)
    hidden[row, column] = batch["token"][row, column] != batch["target"][row, slot]
    np.testing.assert_array_equal(
        batch["part_of_speech"], np.where(hidden, other, expected)
    )


def test_more_labels_than_levels_are_refused():
    types = {"positive": "entity", "negative": "phrase", "levels": 2}
    objective = objectives.make_objective("sentilare", **types)
    example = texts(20, [20] * 3, VOCAB)._replace(label=np.arange(3, dtype=np.int32))
    with pytest.raises(UserError, match=r"levels is 2, but the texts have labels"):
        objective.corrupt(example, keys(3), VOCAB, 22)
    tagged = {"pos": "tags", "base_objective": "sequence_classification"}
    with pytest.raises(UserError, match=r"pos=tags cannot be combined"):
        objectives.make_objective("sentilare", **tagged).text_spec(22)


def test_a_name_is_spelled_with_its_entities(tmp_path):
    entities_of = "\t".join(f"e{n}" for n in range(entities.MAX_CANDIDATES + 2))
    (tmp_path / "names.tsv").write_text(f"one\te0\nRiver\t{entities_of}\n")
    table = str(tmp_path / "table.npz")
    assert entities.spell_name(table, 0) == "one (e0)"
    assert entities.spell_name(table, 1).startswith("River (e0, e1, ")
    assert entities.spell_name(table, 1).endswith(" and 2 more)")
    shapes = {"candidate": (3, 2), "prior": (3, 1), "vectors": (4, 5)}
    np.savez(table, **{name: np.zeros(shape) for name, shape in shapes.items()})
    with pytest.raises(
        UserError, match=r"candidate has shape \[3, 2\], and prior \[3, 1"
    ):
        entities.table_sizes(table)


def test_a_line_that_is_no_name_is_refused(tmp_path):
    (tmp_path / "names.tsv").write_text("e1\triver\t0.5\ne2\tstone\tmuch\n")
    with pytest.raises(UserError, match=r"names\.tsv:2: must be entity<TAB>name or"):
        entity_links.read_names(tmp_path / "names.tsv")


def test_shuffled_polarities_are_as_many_for_the_same_words():
    example = texts(60, [60] * 300, VOCAB)
    types = ("phrase", "entity")
    given, shuffled = (
        polarity.word_polarity(example, VOCAB, types, shuffled=shuffled)
        for shuffled in (False, True)
    )
    np.testing.assert_array_equal(
        given == polarity.NEUTRAL, shuffled == polarity.NEUTRAL
    )
    assert (given != shuffled).any()


@pytest.mark.parametrize("source", graph.SOURCES)
def test_kepler_reads_a_true_triple_and_false_ones(source):
    fields = {"description": 4, "negatives": 2, "graph": source}
    objective = objectives.make_objective("kepler", **fields)
    example = texts(20, [20] * 50, VOCAB)
    batch = objective.corrupt(example, keys(50), VOCAB, 22)
    token = batch["entity_token"].reshape(50, 6, 4)
    assert (token[..., 0] == VOCAB.bos_id).all()
    lexicon = VOCAB.lexicon
    entity = {
        (*row[:size].tolist(),): number
        for number, (row, size) in enumerate(
            zip(lexicon.token, lexicon.size, strict=True)
        )
    }
    number = [
        [
            entity[(*(each[1 : each.tolist().index(VOCAB.eos_id)]).tolist(),)]
            for each in row
        ]
        for row in token
    ]
    triples = graph.graph_of(VOCAB, source).triples
    trained = {*zip(*(each[triples.file == 0] for each in triples[:3]), strict=True)}
    for (head, tail, *others), relation in zip(number, batch["relation"], strict=True):
        assert (head, relation, tail) in trained
        assert not {(e, relation, tail) for e in others[:2]} & trained
        assert not {(head, relation, e) for e in others[2:]} & trained


CASES = {
    "kbert": {"base_objective": "sequence_classification"},
    **{n: VARIANTS[n][0] for n in ("sentilare", "kepler", "ernie_thu", "knowbert")},
}


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_32_examples_are_learnt_by_heart(name):
    """Each term of the loss falls to a third of what it was, or below .1."""
    objective, net = make_network(name, CASES[name], width=64, dropout=0.0)
    example = texts(30, [30] * ROWS, VOCAB)
    example = example._replace(label=np.arange(ROWS) % 3)
    batch = objective.corrupt(example, keys(ROWS), VOCAB, 40)
    batch |= {"example": np.arange(ROWS, dtype=np.int32), "carry": ()}
    batch = jax.tree.map(jnp.asarray, batch | make_constants(objective))
    run = partial(objective.loss, batch=batch, key=None)
    params = networks.unbox(networks.init(net, run, jax.random.key(0)))
    optimizer = optax.adam(3e-3)

    def loss(params):
        terms = networks.apply(net, params, run)[0]
        means = {n: t.total / t.weight for n, t in terms.items() if t.coef}
        weights = {n: t.weight for n, t in terms.items() if t.coef}
        total = sum(jnp.where(weights[n] > 0, means[n], 0.0) for n in means)
        return total, means

    @jax.jit
    def train(params):
        def step(carry, _):
            params, state = carry
            (_, means), grads = jax.value_and_grad(loss, has_aux=True)(params)
            updates, state = optimizer.update(grads, state)
            return (optax.apply_updates(params, updates), state), means

        return jax.lax.scan(step, (params, optimizer.init(params)), length=300)[1]

    for term, values in train(params).items():
        if np.isfinite(values[0]):
            assert values[-1] < max(0.1, values[0] / 3), (term, values[0], values[-1])


NAMES = "g\tहिन्द\nh\t東京タワー\ni\tYork Minster\n"
NAMES += "a\tNew York\nb\tYork\nc\tParis\t3\nd\tParis\t1\ne\tMay\nf\t北京\n"


def test_names_are_linked_by_the_longest_match(tmp_path):
    (tmp_path / "names.tsv").write_text(NAMES)
    linker = entity_links.Linker(entity_links.read_names(tmp_path / "names.tsv"))
    assert linker.num_stopped == 1
    text = "May I see New York, York or Paris? 我在北京。NewYork हिन्दी"
    counts = []
    (links,) = entity_links.link_texts(linker, [text], counts)
    found = [text[link.begin : link.end] for link in links]
    assert found == ["New York", "York", "Paris", "北京"]
    paris = linker.names[links[2].name]
    assert paris.entities == ("c", "d") and paris.priors == (0.75, 0.25)
    assert counts[0].mentions == 4 and counts[0].ambiguous_mentions == 1
    ignoring = entity_links.Linker(linker.names, ignore_case=True)
    assert len(ignoring.find("new york, PARIS")) == 2
    assert len(linker.find("東京タワーは高い। हिन्द")) == 2
    assert [link[:2] for link in linker.find("in York")] == [(3, 7)], "no Minster"


def test_the_entities_of_a_relation_stand_between_marks():
    row = {"tokens": list("abc"), "h": ["", "", [[2]]], "t": ["", "", [[0, 1]]]}
    found = [*relations.fewrel({"P1": [row] * 7})]
    assert [name for name, _ in found] == ["train"] * 4 + ["valid"]
    assert found[-1][1] == {"text": "$ a b $ # c #", "label": "P1"}
    rows = '{}\t"<e1>c d</e1> of <e2>e</e2>."\r\nOther\r\nComment:{}\r\n\r\n'
    found = [*relations.semeval(rows.format(5, "") + rows.format(6, " a"))]
    assert [name for name, _ in found] == ["train", "valid"]
    assert found[0][1] == {"text": "# c d # of $ e $.", "label": "Other"}
    with pytest.raises(UserError, match=r"got '7.*<e3>"):
        [*relations.semeval(rows.format(7, "").replace("e2", "e3"))]


def test_linked_texts_and_their_table_reach_an_objective(tmp_path):
    """`palimpsest link` with given vectors, then a batch that reads what it wrote."""
    (tmp_path / "names.tsv").write_text(NAMES)
    rows = ["Paris lies far from New York . " * 6] * 40
    lines = [json.dumps({"text": f"{n} {row}"}) for n, row in enumerate(rows)]
    (tmp_path / "texts.jsonl").write_text("\n".join(lines))
    vectors = [f"{name} {n} 1 0 0" for n, name in enumerate("abcdef", 1)]
    (tmp_path / "v.txt").write_text("\n".join(["6 4", *vectors]))
    flags = [f"--{name}={tmp_path / file}" for name, file in _FILES.items()]
    link_command.run(link_command.parser().parse_args(flags))
    config = small_data.config(str(tmp_path / "D/texts.linked"), tmp_path / "cache")
    config.objective.name = "ernie_thu"
    config.data.vocabulary_size = 300
    config.objective.update(entities=str(tmp_path / "D/entities.npz"), drop_rate=0.0)
    config.objective.random_rate = 0.0
    data, objective = small_data.open_small(config)
    batch = data.train.batch(0)
    table = objective.constants(data.vocab)[entities.NAME]
    names = (tmp_path / "D/names.tsv").read_text().splitlines()
    read = {names[n] for n in np.unique(batch["mention_read"]) if n}
    assert read == {"New York\ta", "Paris\tc\td"}
    assert table.arrays["vectors"].shape == (7, 4)  # May is a stop word
    stored = np.load(tmp_path / "D/entities.npz")
    paris = names.index("Paris\tc\td")
    np.testing.assert_allclose(stored["prior"][paris], [0.75, 0.25])
    row = stored["candidate"][paris, 0]
    assert stored["vectors"][row].tolist() == [3, 1, 0, 0]
    shuffled = entities.constants(config.objective.entities, shuffled=True)
    values = shuffled[entities.NAME].values["vectors"]
    assert not values[0].any() and not np.array_equal(values, stored["vectors"])
    np.testing.assert_allclose(np.sort(values, 0), np.sort(stored["vectors"], 0))


_FILES = {
    "texts": "texts.jsonl",
    "names": "names.tsv",
    "vectors": "v.txt",
    "to": "D",
}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ('{"text": "a b", "links": [[0, 9, 2]]}', "must lie within the 3 characters"),
        ('{"text": "a b", "links": [[2, 1, 2]]}', "must lie within"),
        ('{"text": "a b", "links": [[0, 2, 2], [1, 3, 2]]}', "overlap"),
        ('{"text": "a b", "links": [[0, 1, 0]]}', "is at least 1"),
        ('{"text": "a b", "links": [[0, 1]]}', "must be [begin, end, number]"),
        ('{"text": "a b"}', 'a string "text" and "links"'),
    ],
)
def test_wrong_links_are_refused_in_one_line(tmp_path, row, message):
    (tmp_path / "a.linked").write_text(row)
    with (
        pytest.raises(LineError) as error,
        (tmp_path / "a.linked").open("rb") as file,
    ):
        [*Format().parse(file, AUTO)]
    assert message in error.value.args[1] and "\n" not in error.value.args[1]


@pytest.mark.parametrize(
    ("name", "fields", "message"),
    [
        ("ernie_thu", {}, "objective.entities is not set"),
        ("ernie_thu", {"entities": "none.npz"}, "is not a table of palimpsest link"),
        ("ernie_thu", {"entities": "/dev/null"}, "is not a table of palimpsest link"),
        ("sentilare", {}, "needs words with a polarity"),
        ("sentilare", {"positive": "x", "negative": "y"}, "word<TAB>x and word<TAB>y"),
        ("kepler", {"max_relations": 2}, "has 3 relations; raise it"),
    ],
)
def test_what_is_missing_is_said_in_one_line(name, fields, message):
    objective = objectives.make_objective(name, **fields)
    example = texts(20, [20] * 2, VOCAB)
    with pytest.raises(UserError) as error:
        objective.needs(VOCAB)
        objective.corrupt(example, keys(2), VOCAB, 22)
    assert message in str(error.value) and "\n" not in str(error.value)


def test_a_name_that_the_table_lacks_is_refused():
    objective = objectives.make_objective("knowbert", entities="random")
    with pytest.raises(UserError, match=r"links name 64, but objective\.entities"):
        linked_rows(objective, np.where(np.arange(40) == 3, 64, -1))


def test_rows_that_are_not_in_the_order_of_the_text_are_refused():
    base = {"format": "segment_pair", "sentence_task": "sop"}
    objective = objectives.make_objective("ernie_thu", entities="random", base=base)
    example = texts(40, [40] * 8, VOCAB)._replace(
        first_length=np.full(8, 15, np.int32), label=np.zeros(8, np.int32)
    )
    with pytest.raises(UserError, match="not in the order of the text"):
        objective.corrupt(example, keys(8), VOCAB, 43)


@pytest.mark.parametrize("name", ["fusion", "kar"])
def test_a_published_encoders_parameters_have_the_names_of_berts(name):
    """What is new is below stack/fusion or kar alone."""
    objective = {"fusion": "ernie_thu", "kar": "knowbert"}[name]
    fields, post = {"entities": "random"}, {"norm_placement": "post"}
    shapes = [
        jax.eval_shape(partial(_init, *make_network(*case)))
        for case in (
            (objective, fields | {"model": {"network": name, **post}}),
            ("mlm", {"model": post}),
        )
    ]
    ours, berts = (
        {jax.tree_util.keystr(path): leaf.shape for path, leaf in _leaves(each)}
        for each in shapes
    )
    new = {path for path in ours.keys() - berts.keys() if "head_entity" not in path}
    assert berts.items() <= ours.items()
    assert all("fusion" in path or "kar" in path for path in new) and new


def _init(objective, net):
    batch = objective.corrupt(texts(20, [20] * 2, VOCAB), keys(2), VOCAB, 22)
    batch = jax.tree.map(jnp.asarray, batch | make_constants(objective))
    loss = lambda net: objective.loss(net, batch, None)  # noqa: E731
    return networks.unbox(networks.init(net, loss, jax.random.key(0)))


def _leaves(tree):
    return jax.tree_util.tree_leaves_with_path(tree)
