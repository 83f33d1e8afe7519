"""glove: what meets, how it is weighted, and a step of the released code."""

import io
from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from launch.commands import cooccurrences as command
from research import networks, objectives
from research.contract.errors import UserError
from research.data.cooccurrences import (
    CELL,
    count_cells,
    count_words,
    shuffle_cells,
)
from research.data.read.formats import AUTO, LineError, make_format
from research.optimize.rules.adagrad import Optimizer
from tests.testing.example_batches import keys, texts, vocab
from tests.testing.model_options import model_options

TABLES = model_options(network="tables", width=2, tie_embeddings=False, layers=1)


@pytest.mark.parametrize(
    ("symmetric", "expected"),
    [
        (True, {"aa": 1, "ab": 2.5, "ba": 2.5, "ac": 1, "ca": 1, "bc": 1.5, "cb": 1.5}),
        (False, {"aa": 0.5, "ab": 1.5, "ac": 1, "ba": 1, "bc": 0.5, "cb": 1}),
    ],
)
@pytest.mark.parametrize("pairs", [1, 5, 1000])
def test_words_meet_as_the_tool_counts_them(
    symmetric, expected, pairs, monkeypatch, tmp_path
):
    """Window 2; a word that is too rare takes no room, and lines do not meet. With few
    pairs in memory a line is cut into chunks, and their files merged on two levels."""
    monkeypatch.setattr("research.data.cooccurrences.PAIRS_IN_MEMORY", pairs)
    monkeypatch.setattr("research.data.cooccurrences.MAX_RUNS", 3)
    monkeypatch.setattr("research.data.cooccurrences.CHARACTERS_AT_ONCE", 2)
    lines = ["a b x a c b", "", "c"]
    words = count_words([*lines, "a b c"], 2)
    assert words == ["a", "b", "c"]
    cells = count_cells(lines, words, 2, tmp_path, symmetric=symmetric)
    first, second = np.divmod(cells["key"], len(words))
    found = zip(first, second, cells["count"], strict=True)
    assert {words[i] + words[j]: x for i, j, x in found} == expected
    shuffled = np.concatenate([*shuffle_cells(cells, 0, tmp_path)])
    assert (np.sort(shuffled) == cells).all()
    assert len([*tmp_path.iterdir()]) == 1, "what was merged or read is deleted"


def test_any_order_of_cells_is_as_likely(monkeypatch, tmp_path):
    """Four cells by files of two: all 24 orders, a chi-squared test at p = 1e-4."""
    monkeypatch.setattr("research.data.cooccurrences.PAIRS_IN_MEMORY", 2)
    cells = np.zeros(4, CELL)
    cells["key"] = np.arange(4)
    orders = Counter(
        tuple(np.concatenate([*shuffle_cells(cells, seed, tmp_path)])["key"].tolist())
        for seed in range(960)
    )
    counts = np.array([*orders.values()])
    assert len(counts) == 24 and ((counts - 40) ** 2 / 40).sum() < 60


def batch_of(objective, info, cells):
    """The batch of one row of cells: first, second, X."""
    example = texts(2 * len(cells), [2 * len(cells)], info)
    pairs = np.array([[int(i), int(j)] for i, j, _ in cells], np.int32)
    met = np.repeat(np.float32([x for *_, x in cells]), 2)[None]
    arrays = {"cooccurrence": met}
    example = example._replace(token=pairs.reshape(1, -1), arrays=arrays)
    return objective.corrupt(example, keys(1), info, 2 * len(cells))


def test_cells_are_weighted_up_to_the_maximum():
    objective, info = objectives.make_objective("glove"), vocab(20, sentinels=0)
    cells = [(5, 6, x) for x in (1, 10, 50, 100, 700)]
    batch = batch_of(objective, info, [*cells, (5, info.unk_id, 9), (6, 7, 9)])
    expected = [0.031623, 0.177828, 0.594604, 1, 1, 0, 0.164317]
    np.testing.assert_allclose(batch["weight"][0], expected, rtol=1e-4)
    np.testing.assert_allclose(
        batch["target_log"][0, :5], np.log([1, 10, 50, 100, 700]), rtol=1e-6
    )
    assert batch["token"].tolist() == [[5, 5, 5, 5, 5, 5, 6]]
    assert batch["target"].tolist() == [[6, 6, 6, 6, 6, info.unk_id, 7]]


def test_a_step_is_that_of_the_released_code():
    """The tool multiplies gradients by its rate before it squares them; so a rate of 1
    and a first sum of 1 / rate^2 are its step. Biases have the rate of vectors."""
    objective = objectives.make_objective("glove", x_max=10.0)
    info, eta = vocab(20, sentinels=0), 0.05
    module = networks.build(TABLES, objective.needs(info), info)
    batch = batch_of(objective, info, [(5, 6, 5)])
    table, output, bias, shift = (
        np.zeros(shape, np.float32) for shape in [(128, 2)] * 2 + [128] * 2
    )
    table[5], output[6], bias[5], shift[6] = (0.1, -0.2), (0.3, 0.4), 0.05, -0.02
    params = {
        "token": {"embedding": table},
        "input_bias": {"bias": bias},
        "output": {"embedding": output, "bias": shift},
    }

    def loss(params):
        score = lambda net: objective.loss(net, batch, None)[0]  # noqa: E731
        return networks.apply(module, params, score)["glove"].total

    params = jax.tree.map(jnp.asarray, params)
    total, grads = jax.jit(jax.value_and_grad(loss))(params)
    assert total == pytest.approx(0.78935641)
    optimizer = Optimizer(initial_sum=eta**-2, sum_includes="past", epsilon=0.0)
    (transform,) = optimizer.transforms()
    updates, state = transform.update(grads, transform.init(params))
    after = optax.apply_updates(params, jax.tree.map(jnp.negative, updates))
    for found, expected in [
        (after["token"]["embedding"][5], (0.11453304, -0.18062261)),
        (after["output"]["embedding"][6], (0.30484435, 0.3903113)),
        (after["input_bias"]["bias"][5], 0.09844348),
        (after["output"]["bias"][6], 0.02844348),
        (state.sums["token"]["embedding"][5] * eta**2, (1.00021121, 1.00037548)),
        (state.sums["input_bias"]["bias"][5] * eta**2, 1.00234677),
    ]:
        np.testing.assert_allclose(found, expected, rtol=2e-6)
    again, _ = transform.update(grads, state)
    ratio = again["token"]["embedding"][5] / updates["token"]["embedding"][5]
    np.testing.assert_allclose(
        ratio, np.float64([1.00021121, 1.00037548]) ** -0.5, 1e-6
    )


def parse(text: bytes):
    return list(
        make_format(AUTO._replace(format="cooccurrences")).parse(io.BytesIO(text), AUTO)
    )


@pytest.mark.parametrize(
    ("name", "fields"), [("glove", {}), ("cbow", {"output": "hierarchical"})]
)
def test_one_table_is_refused(name, fields):
    """Of words both as input and as output, and of words and nodes of a tree."""
    objective, info = objectives.make_objective(name, **fields), vocab(9, 1)
    options = model_options(network="tables")
    with pytest.raises(UserError, match=r"model\.tie_embeddings is True.* to False"):
        networks.build(options, objective.needs(info), info)


def test_a_document_has_the_pairs_of_its_lines():
    (document,) = parse("the\triver\t2.5\nof\té\t1e-3\n".encode())
    assert document.text == "the river of é"
    assert document.starts == (10,)
    assert document.arrays == {"cooccurrence": [2.5, 0.001]}
    assert [d.id for d in parse(b"a\tb\t1\n" * 600)] == [":1", ":513"]


@pytest.mark.parametrize(
    "line",
    [b"a b 1", b"a\tb", b"a\tb\tc", b"a\tb\t0", b"a\t\t1", b"a b\tc\t1", b"a\tb\tnan"],
)
def test_a_line_that_is_no_cell_is_refused(line):
    with pytest.raises(LineError, match="two words and a number above 0"):
        parse(b"a\tb\t1\n" + line + b"\n")


def test_words_that_are_no_pairs_are_refused():
    objective, info = objectives.make_objective("glove"), vocab(20, sentinels=0)
    example = texts(4, [4], info)
    arrays = {"cooccurrence": np.float32([[1, 2, 2, 3]])}
    with pytest.raises(UserError, match=r"data.vocabulary=words and data.separator"):
        objective.corrupt(example._replace(arrays=arrays), keys(1), info, 4)


def run(*flags):
    command.run(command.parser().parse_args([*flags]))


def test_the_command_writes_what_the_format_reads(tmp_path, capsys):
    source, to = tmp_path / "t.txt", tmp_path / "t.cooccurrences"
    source.write_text("a b a c b\nb a\n")
    run(f"--texts={source}", f"--to={to}", "--window=2", "--min-count=2")
    assert "4 pairs of 2 words" in capsys.readouterr().err
    (document,) = parse(to.read_bytes())
    pairs = document.text.replace(" ", "")
    found = {
        pairs[2 * n : 2 * n + 2]: x
        for n, x in enumerate(document.arrays["cooccurrence"])
    }
    assert found == {"aa": 1.0, "ab": 4.0, "ba": 4.0, "bb": 1.0}
    source.write_text("a\nb\n")
    with pytest.raises(UserError, match="no line with two words that occur 1 times"):
        run(f"--texts={source}", f"--to={to}", "--min-count=1")
    assert len(parse(to.read_bytes())) == 1, "what was there stays"
    with pytest.raises(UserError, match="no word that occurs 9 times"):
        run(f"--texts={source}", f"--to={to}", "--min-count=9")
    with pytest.raises(UserError, match=r"must end in \.cooccurrences"):
        run(f"--texts={source}", "--to=cells.txt")
