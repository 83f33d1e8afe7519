"""Vectors of sentences by contrast within the batch."""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from etils import epath

from launch.commands import similarity
from research import networks, objectives
from research.config.config import Config
from research.contract.batch import PART
from research.contract.errors import UserError
from research.data.options import DataOptions
from research.evaluation.rated_pairs import rated_program
from research.objectives.losses.contrastive import in_batch
from research.predictions.text_retrieval import text_ranks
from research.program.setup import build_program
from research.program.step import gradient
from research.record.metric_writer import read_metrics
from research.use.inference.open_run import open_run
from tests.testing.example_batches import texts, vocab
from tests.testing.model_options import model_options
from tests.testing.tiny_runs import save_untrained, tiny_config, train, write_corpus

QUERY, ANSWER = jnp.eye(2), jnp.array([[1, 0], [0.6, 0.8]])


@pytest.mark.parametrize(("temperature", "mean"), [(0.05, 0.000168), (1.0, 0.442058)])
def test_the_loss_is_that_of_the_released_code(temperature, mean):
    """Also where vectors have other lengths, and with rows that do not count."""
    for factor in (1.0, 3.0):
        term, correct = in_batch(
            factor * QUERY, ANSWER, jnp.ones(2), temperature=temperature
        )
        np.testing.assert_allclose(term.total / term.weight, mean, atol=1e-6)
        assert correct == 2
    padded = (jnp.concatenate([x, jnp.ones((1, 2))]) for x in (QUERY, ANSWER))
    weight = jnp.array([1.0, 1.0, 0.0])
    same, _ = in_batch(*padded, weight, temperature=temperature)
    np.testing.assert_allclose(same.total, term.total, rtol=1e-5)


def test_hard_negatives_are_candidates_of_all_rows_and_zeros_have_a_gradient():
    plain, _ = in_batch(QUERY, ANSWER, jnp.ones(2), temperature=1.0)
    more, _ = in_batch(QUERY, ANSWER, jnp.ones(2), [QUERY], temperature=1.0)
    dots = np.concatenate([ANSWER @ QUERY.T, QUERY], axis=0) @ np.eye(2)
    expected = [np.log(np.exp(dots[:, n]).sum()) - dots[n, n] for n in range(2)]
    np.testing.assert_allclose(more.total, sum(expected), rtol=1e-5)
    assert more.total > plain.total
    loss = lambda x: in_batch(x, ANSWER, jnp.ones(2), temperature=1.0)[0].total  # noqa: E731
    assert np.isfinite(jax.grad(loss)(jnp.zeros((2, 2)))).all()


def test_parts_are_rows_of_their_own_and_a_row_that_lacks_one_has_weight_0():
    objective = objectives.make_objective("sentence_vectors", texts=3)
    known = vocab()
    example = texts(12, [6, 6, 2], known)
    example.flags[0, [2, 5]] |= PART
    example.flags[1, [3]] |= PART
    batch = objective.corrupt(example, np.zeros(3, np.uint64), known, 6)
    lengths = {
        prefix: (batch[f"{prefix}segment"] > 0).sum(axis=1).tolist()
        for prefix in ("", "positive_", "negative_")
    }
    assert lengths == {
        "": [4, 5, 4],
        "positive_": [5, 5, 0],
        "negative_": [3, 0, 0],
    }
    assert batch["vector_weight"].tolist() == [1, 0, 0]
    row = batch["positive_token"][0, :5].tolist()
    assert row == [known.bos_id, *example.token[0, 2:5], known.eos_id]


def test_cached_vectors_have_the_gradient_of_one_pass_with_their_dropout():
    """Rows of micro-batch m are m::2, and its dropout has key m in both readings."""
    objective = objectives.make_objective("sentence_vectors")
    known, key = vocab(), jax.random.key(1)
    batch = objective.corrupt(
        texts(6, [6, 5, 3, 6], known), np.zeros(4, np.uint64), known, 8
    )
    batch = jax.tree.map(jnp.asarray, batch)
    options = model_options(layers=1, width=16, heads=2, dropout=0.3)
    network = networks.build(options, objective.needs(known), known)
    loss = lambda net: objective.loss(net, batch, key)[0]  # noqa: E731
    params = networks.unbox(networks.init(network, loss, key))

    def whole(params):
        parts = []
        for m in range(2):
            rows = jax.tree.map(lambda x, m=m: x[m::2], batch)
            read = lambda net, rows=rows: objective.row_vectors(net, rows)  # noqa: E731
            dropout_key = jax.random.fold_in(key, m)
            parts.append(networks.apply(network, params, read, dropout_key))
        vectors = [
            jnp.stack(pair, axis=1).reshape(4, 16) for pair in zip(*parts, strict=True)
        ]
        term = objective.contrast(None, vectors, batch)["contrast"]
        return term.total / term.weight

    @jax.jit
    def both(params):
        keys = {"key": key, "dropout_key": key, "accumulate": 2}
        fed = batch | {"carry": ()}
        return jax.grad(whole)(params), gradient(
            objective, network, params, fed, **keys
        )

    expected, (found, sums, _) = both(params)
    largest = max(np.abs(x).max() for x in jax.tree.leaves(expected))
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, atol=2e-6 * largest, rtol=0),
        found,
        expected,
    )
    assert largest > 1e-3 and sums["contrast"][1] == 4


def test_ranks_of_second_texts():
    """Equal texts are one candidate; ties have the mean rank; weight 0 has none."""
    first = np.array([[1.0, 0], [0, 1], [2, 0], [9, 9]])
    second = np.array([[0.6, 0.8], [1, 0], [1, 0], [0.7, 0.7]])
    token, weight = np.array([[3, 0], [4, 5], [4, 5], [6, 0]]), np.array([1, 1, 1, 0.0])
    ranks = text_ranks(first, second, token, weight)
    assert ranks.tolist() == [[2], [2], [1], [0]]
    same = text_ranks(0 * first + 1, 0 * second + 1, np.arange(4)[:, None], np.ones(4))
    assert (same == 2.5).all()


def test_widths_beyond_the_vectors_are_one_line(tmp_path):
    folder = write_corpus(tmp_path)
    keys = {"objective.name": "sentence_vectors", "objective.widths": [64]}
    with pytest.raises(UserError, match=r"widths=\[64\] must be at most 32"):
        save_untrained(tmp_path / "run", tiny_config(folder, "lm", **keys))


def write_pairs(folder):
    """Pairs of texts with people's scores, and a run's keys that name them."""
    rows = [
        ("the old river", "an old river", 5),
        ("a stone reads", "the stone sees", 3.5),
        ("a small stone", "by the river and the stone", 1),
        ("the old stone", "a river", 0.5),
        ("a small old river sees", "a small river sees", 4),
        ("and", "by", ""),
    ]
    lines = ["one\ttwo\tpeople", *("\t".join(map(str, row)) for row in rows)]
    (folder / "pairs.tsv").write_text("\n".join(lines) + "\n")
    keys = {"similarity": str(folder / "pairs.tsv"), "similarity_fields": "one,two"}
    keys["similarity_label"] = "people"
    return {f"objective.{key}": value for key, value in keys.items()}


def test_a_run_measures_what_similarity_prints(tmp_path, capsys):
    """Of plain sentences, at each evaluation; the best one of them opens the run."""
    folder = write_corpus(tmp_path)
    keys = write_pairs(tmp_path) | {"train.best_metric": "spearman"}
    config = tiny_config(folder, "simcse", **keys | {"train.eval_every": 4})
    result = train(config, tmp_path / "run")
    lines = read_metrics(epath.Path(tmp_path / "run"))
    found = {
        line["step"]: line["valid/spearman"]
        for line in lines
        if "valid/spearman" in line and "best_step" not in line
    }
    assert [*found] == [4, 8, 12] and found[result["best_step"]] == max(found.values())
    assert result["ranges"]["valid/spearman"] == (-1, 1)
    assert result["metrics"]["valid/loss"] > 0
    flags = [f"--workdir={tmp_path / 'run'}", f"--data={tmp_path / 'pairs.tsv'}"]
    flags += ["--fields=one,two", "--label=people"]
    capsys.readouterr()
    similarity.run(similarity.parser().parse_args(flags))
    printed = capsys.readouterr().out
    for name in ("spearman", "pearson"):
        value, margin = (result[k][f"valid/{name}"] for k in ("metrics", "margins"))
        assert f"{name} {value:.4f} ± {margin:.2g}\n" in printed


def test_a_run_of_pairs_has_ranks_and_correlations(tmp_path):
    """Its ranks are those of the vectors that `encode` makes of the run."""
    folder, keys = write_corpus(tmp_path), write_pairs(tmp_path)
    pairs = keys["objective.similarity"]
    keys |= {"objective.texts": 2, "data.train": pairs, "data.valid": pairs}
    keys |= {
        "data.fields": "one,two",
        "data.vocabulary": "words",
        "data.vocabulary_size": 112,
    }
    config = tiny_config(folder, "simcse", **keys)
    metrics = train(config, tmp_path / "run")["metrics"]
    rows = [line.split("\t") for line in Path(pairs).read_text().splitlines()[1:]]
    vectors = [
        open_run(tmp_path / "run").encode(texts) for texts in zip(*rows, strict=True)
    ][:2]
    ranks = text_ranks(*vectors, np.arange(len(rows))[:, None], np.ones(len(rows)))
    assert metrics["valid/mrr"] == pytest.approx((1 / ranks).mean())
    assert metrics["valid/recall_5"] == (ranks <= 5).mean()
    assert -1 <= metrics["valid/spearman"] <= 1


def test_an_objective_that_wraps_another_has_its_pairs():
    fields = {"base_objective": "sentence_vectors", "base": {"similarity": "p.tsv"}}
    found = objectives.make_objective("distill", **fields).rated_pairs(DataOptions())
    assert found.data.test == "p.tsv" and found.objective.texts == 2
    assert objectives.make_objective("distill").rated_pairs(DataOptions()) is None


def test_wrong_pairs_are_one_line(tmp_path):
    folder, pairs = write_corpus(tmp_path), write_pairs(tmp_path)
    config = tiny_config(folder, "simcse", **pairs)
    program = build_program(Config.of(config), jax.devices()[:1])
    (tmp_path / "none.tsv").write_text("one\ttwo\tpeople\n")
    for changes, words in (
        ({"": str(tmp_path / "none.tsv")}, r"objective.similarity=.*none.tsv has no t"),
        ({"_fields": "one,three"}, "column of objective.similarity_fields 'three'"),
        ({"_fields": "one"}, "got 1; objective.similarity_fields=A,B names their"),
        ({"_label": "score"}, "objective.similarity_label=score: no row of .*pairs"),
        ({"_fields": "one,people", "_label": "two"}, "similarity_label must be a numb"),
    ):
        keys = {f"objective.similarity{key}": value for key, value in changes.items()}
        wrong = Config.of(tiny_config(folder, "simcse", **pairs | keys))
        with pytest.raises(UserError, match=words) as error:
            rated_program(program._replace(objective=wrong.objective), wrong)
        assert "\n" not in str(error.value) and "data." not in str(error.value)
    with pytest.raises(UserError, match="similarity_label must be a column"):
        tiny_config(folder, "simcse", **pairs | {"objective.similarity_label": ""})


def test_a_run_compares_texts_by_its_vectors(tmp_path, capsys):
    folder = write_corpus(tmp_path)
    keys = {"objective.name": "sentence_vectors", "objective.pool": "class"}
    workdir, *_ = save_untrained(tmp_path / "run", tiny_config(folder, "lm", **keys))
    model = open_run(workdir)
    assert model.pool == "class"
    pairs = [("the old river", "a small stone"), ("a stone", "a stone")]
    cosines = model.similarity(pairs)
    np.testing.assert_allclose(cosines[1], 1, atol=1e-6)
    one, two = model.encode([*pairs[0]])
    expected = one @ two / np.linalg.norm(one) / np.linalg.norm(two)
    np.testing.assert_allclose(cosines[0], expected, rtol=1e-5)
    file = tmp_path / "pairs.tsv"
    rows = ["one\ttwo\tscore", *("\t".join([*pair, "3"]) for pair in pairs)]
    rows += ["the river\tby a stone\t1", "old\tsmall\t2"]
    file.write_text("\n".join(rows) + "\n")

    def run(*flags):
        similarity.run(similarity.parser().parse_args([f"--workdir={workdir}", *flags]))

    run(f"--data={file}", "--fields=one,two", "--label=score")
    assert "spearman " in capsys.readouterr().out
    run(*pairs[1])
    assert capsys.readouterr().out == "1.0000\n"
    run(*pairs[1], f"--to={tmp_path / 'one.jsonl'}")
    assert json.loads((tmp_path / "one.jsonl").read_text())["texts"] == [*pairs[1]]
    file.write_text("one\ttwo\tscore\na\tb\t3\nold\tnew\t3\n")
    run(f"--data={file}", "--fields=one,two", "--label=score")
    assert "no correlation: a side is constant" in capsys.readouterr().err
    file.write_text("one\ttwo\tscore\na\tb\t3\nold\tnew\tnan\n")
    for flags, words in (
        ([], "give two texts"),
        (["one"], "a pair has 2 texts, got 1"),
        ([f"--data={file}", "--fields=one"], "a pair has 2 texts, got 1; --fields=A,B"),
        ([f"--data={file}", "--fields=one,score", "--label=two"], "must be a number"),
        ([f"--data={file}", "--fields=one,two", "--label=score"], "number, got 'nan'"),
    ):
        with pytest.raises(UserError, match=words):
            run(*flags)
