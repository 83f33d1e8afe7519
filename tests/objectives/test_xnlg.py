"""XNLG: noises of text in one language, pairs in both directions, languages."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from research import networks, objectives
from research.config.config import Config
from research.contract.batch import PARAGRAPH
from research.interop.partial_restore import restore_params
from research.optimize.optimizer import is_frozen
from research.program.setup import build_program
from tests.testing import tiny_runs
from tests.testing.example_batches import keys, texts, vocab
from tests.testing.tiny_runs import random_state, tiny_config

VOCAB = vocab(size=200)
TUNED = "token,encoder_embeddings,decoder,decoder_embeddings,decoder_token,output"
"""What the third stage leaves as it is: all but the layers of the encoder."""
ROWS, WIDTH, LENGTH = 300, 20, 22


def make(**fields):
    return objectives.make_objective("xnlg", **fields)


def numbered(**fields):
    """Texts whose tokens are all different, in order; the encoder's tokens of each."""
    example = texts(WIDTH, [WIDTH] * ROWS, VOCAB)
    first = int(VOCAB.ordinary_ids[0])
    example.token[:] = first + np.arange(WIDTH)
    none = {"shuffle_distance": 0.0, "drop_rate": 0.0, "blank_rate": 0.0}
    objective = make(languages="1", **none | fields)
    batch = objective.corrupt(example, keys(ROWS), VOCAB, LENGTH)
    assert (batch["target"][:, :WIDTH] == example.token).all()
    assert (batch["target"][:, WIDTH] == VOCAB.eos_id).all()
    for side in ("encoder_", "decoder_"):
        assert (batch[side + "token_type"] == batch[side + "segment"]).all()
    read = batch["encoder_token"]
    size = (batch["encoder_segment"] > 0).sum(axis=1)
    assert (read[:, 0] == VOCAB.eos_id).all()
    assert (read[np.arange(ROWS), size - 1] == VOCAB.eos_id).all()
    return [row[1 : count - 1] - first for row, count in zip(read, size, strict=True)]


def test_pieces_are_moved_by_less_than_the_distance():
    assert all((row == np.arange(WIDTH)).all() for row in numbered())
    rows = np.array(numbered(shuffle_distance=3.0))
    assert (np.sort(rows, axis=1) == np.arange(WIDTH)).all()
    place = rows.argsort(axis=1)
    later = place[:, :, None] > place[:, None]  # first comes after second
    gap = np.arange(WIDTH)[None] - np.arange(WIDTH)[:, None]
    assert not later[:, gap >= 3].any()
    swapped = later[:, gap == 1].mean()
    # P(u > v + 1) of two numbers below 3 is (2 / 3)^2 / 2.
    assert abs(swapped - 2 / 9) < 0.02


def test_pieces_are_dropped_but_for_one_and_others_become_masks():
    rows = numbered(drop_rate=0.1)
    kept = np.mean([len(row) for row in rows]) / WIDTH
    assert abs(kept - 0.9) < 4 * (0.09 / ROWS / WIDTH) ** 0.5
    assert all((np.diff(row) > 0).all() for row in rows)
    assert {len(row) for row in numbered(drop_rate=0.999)} <= {1, 2}
    mask = VOCAB.mask_id - int(VOCAB.ordinary_ids[0])
    rows = np.array(numbered(blank_rate=0.3))
    assert abs((rows == mask).mean() - 0.3) < 4 * (0.21 / ROWS / WIDTH) ** 0.5
    assert ((rows == mask) | (rows == np.arange(WIDTH))).all()


def test_pairs_are_translated_in_both_directions_without_noise():
    example = texts(WIDTH, [9] * 40 + [0, 1], VOCAB)
    example.flags[:40, 4] |= PARAGRAPH
    batch = make().corrupt(example, keys(42), VOCAB, LENGTH)
    first, second = example.token[:40, :4], example.token[:40, 4:9]
    forward = batch["encoder_token_type"][:40, 1] == 0
    assert 8 < forward.sum() < 32
    for rows, source, target in ((forward, first, second), (~forward, second, first)):
        read, written = batch["encoder_token"][:40][rows], batch["target"][:40][rows]
        assert (read[:, 1 : 1 + source.shape[1]] == source[rows]).all()
        assert (written[:, : target.shape[1]] == target[rows]).all()
    types = [batch[f"{side}_token_type"][:40, 1] for side in ("encoder", "decoder")]
    assert (types[0] + types[1] == 1).all()
    assert not batch["weight"][40:].any() and not batch["is_noised"].any()
    given = make(order="given", languages="2:0")
    batch = given.corrupt(example, keys(42), VOCAB, LENGTH)
    assert (batch["encoder_token_type"][:40, 1] == 2).all()
    assert (batch["decoder_token_type"][:40, :3] == 0).all()
    assert (batch["encoder_token"][:40, 1:5] == first).all()


def test_a_long_side_does_not_shorten_the_other():
    """Sides of 10 and 5 tokens in rows of 6, and of 22, which leave none to the other;
    the length that is read is 24."""
    length, most = 8, 24
    assert make().text_spec(length).length == most
    example = texts(most, [15, 15, 24, 24], VOCAB)
    for row, first in enumerate((10, 5, 22, 10)):
        example.flags[row, first] |= PARAGRAPH
    batch = make(order="given").corrupt(example, keys(4), VOCAB, length)
    assert batch["target"][0, :6].tolist() == [*example.token[0, 10:15], VOCAB.eos_id]
    assert batch["target"][1, :6].tolist() == example.token[1, 5:11].tolist()
    assert batch["weight"].sum(axis=1).tolist() == [6, 7, 0, 7]


def test_a_corpus_in_one_language_is_noised_and_a_parallel_one_is_not():
    example = texts(WIDTH, [9] * 4, VOCAB)._replace(corpus=np.array([0, 1, 2, 1]))
    example.flags[:, 4] |= PARAGRAPH
    batch = make(languages="0:1 1 0").corrupt(example, keys(4), VOCAB, LENGTH)
    assert batch["is_noised"].tolist() == [0, 1, 1, 1]
    assert batch["decoder_token_type"][1:, 1].tolist() == [1, 0, 1]
    assert (batch["target"][1:, :9] == example.token[1:, :9]).all()


class Uniform:
    """A network that gives all tokens one probability."""

    def encode(self, group):
        return None

    def states(self, group, *, encoded):
        return jnp.zeros((*group["token"].shape, 4))

    def readout(self, states):
        return networks.Readout(states, jnp.zeros((200, 4)), jnp.zeros(200), 200)


def test_text_in_one_language_has_a_term_of_its_own():
    example = texts(WIDTH, [9] * 4, VOCAB)._replace(corpus=np.array([0, 1, 0, 1]))
    example.flags[:, 4] |= PARAGRAPH
    for languages, names in (
        ("0:1 1", {"xae", "dae"}),
        ("0:1", {"xae"}),
        ("0", {"dae"}),
    ):
        objective = make(languages=languages, denoising=0.25, order="given")
        batch = objective.corrupt(example, keys(4), VOCAB, LENGTH)
        terms, _ = objective.loss(Uniform(), batch, None)
        assert terms.keys() == names | {"accuracy"}
        rows = {"xae": batch["is_noised"] == 0, "dae": batch["is_noised"] == 1}
        for name in names:
            weight = rows[name].sum() * {"xae": 6, "dae": 10}[name]
            assert terms[name].weight == weight > 0
            assert terms[name].coef == {"xae": 1, "dae": 0.25}[name]
            assert terms[name].total == pytest.approx(weight * np.log(200), rel=1e-5)


@pytest.mark.parametrize(
    ("languages", "read", "written"), [("2:1 0", 2, 1), ("3", 3, 3), ("1:1", 1, 1)]
)
def test_a_text_is_read_and_written_in_the_first_corpus_languages(
    languages, read, written
):
    prompt = make(languages=languages).prompt([[30, 31], [32]], VOCAB)
    assert prompt.encoder["token_type"].tolist() == [[read] * 4, [read] * 3 + [0]]
    assert prompt.encoder["token"][0].tolist() == [VOCAB.eos_id, 30, 31, VOCAB.eos_id]
    assert prompt.group["token"].tolist() == [[VOCAB.eos_id]] * 2
    assert prompt.token_type == written == prompt.group["token_type"][0, 0]


def test_both_stacks_start_from_the_first_layers_of_one(tmp_path):
    folder = tiny_runs.write_corpus(tmp_path)
    model = {"model.token_types": 2, "model.output_head": "bias"}
    trained = tiny_config(folder, "mlm", **model | {"model.layers": 3})
    source, state, _ = tiny_runs.save_untrained(tmp_path / "stage_1", trained)
    keys = {"train.init_from": str(source), "data.vocabulary": None}
    keys |= {"model.layers": 2, "model.decoder_layers": 1, "data.sentinels": None}
    keys |= {"model.shared_embeddings": False, "objective.languages": "1"}
    config = tiny_config(folder, "xnlg", **keys)
    program = build_program(Config.of(config), jax.devices()[:1])
    ours, facts = random_state(program).params, program.data.vocabulary_facts
    found, missing = restore_params(str(source), "", ours, **facts)
    one = state.params
    for side, layers in (("encoder", 2), ("decoder", 1)):
        kernel = found[side]["blocks"]["attention"]["query"]["kernel"]
        own = one["stack"]["blocks"]["attention"]["query"]["kernel"][:layers]
        np.testing.assert_array_equal(kernel, own)
        np.testing.assert_array_equal(
            found[f"{side}_embeddings"]["token_type"], one["embeddings"]["token_type"]
        )
    for table in ("token", "decoder_token"):
        rows = found[table]["embedding"], one["token"]["embedding"]
        np.testing.assert_array_equal(*rows)
    parts = {}
    for stage, names in {"second": config.optimizer.frozen, "third": TUNED}.items():
        frozen = is_frozen(found, names)
        parts[stage] = {n for n, tree in frozen.items() if all(jax.tree.leaves(tree))}
    assert parts["second"] == {"encoder", "encoder_embeddings", "token"}
    assert parts["third"] == {*found} - {"encoder"}
    assert missing and all("/cross" in name for name in missing)
