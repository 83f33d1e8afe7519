"""Masks are filled with the most probable tokens of the network's own distribution."""

import jax
import numpy as np
import pytest

from research import objectives
from research.contract.errors import UserError
from research.data import progress
from research.generation import rows
from research.generation.fill import check_fills, make_fill
from tests.testing.compiled_apply import apply
from tests.testing.objective_cases import VOCAB
from tests.testing.random_models import mesh_of

MASK = VOCAB.mask_id
TEXTS = [[60, MASK, 70, MASK], [50], [MASK, 61, 62, 63, 64, 65], [MASK]]


def probabilities(network, params, text, other=(), first=VOCAB.bos_id):
    """[L, V] of one text alone, or with another one, and their specials."""
    row = [first, *text, VOCAB.eos_id]
    beside = [*other, VOCAB.eos_id] if other else []
    token_type = np.array([[0] * len(row) + [1] * len(beside)], np.int32)
    row = np.array([[*row, *beside]], np.int32)
    zero = np.zeros_like(row)
    group = {"token_type": token_type, "rank": zero, "reach": zero}
    position = np.arange(row.shape[1], dtype=np.int32)[None]
    group |= {"token": row, "segment": zero + 1, "position": position}

    def run(net):
        net = getattr(net, "generator", net)
        readout = net.readout(net.states(group))
        return readout.feature @ readout.table.T + readout.bias[None, None]

    logits = apply(network, params, run)[0, :, : VOCAB.size]
    return np.asarray(jax.nn.softmax(logits))


@pytest.mark.parametrize("name", ["mlm", "electra", "tlm"])
def test_the_best_tokens_of_each_mask(name, make_model, mesh, monkeypatch, capsys):
    """XLM's rows begin with eos. Of many texts a log has how many are done."""
    monkeypatch.setattr(rows, "MANY", 1)
    monkeypatch.setattr(progress, "LOG_INTERVAL_S", 0)
    objective, network, params = make_model(name)
    first = VOCAB.eos_id if name == "tlm" else VOCAB.bos_id
    fill = make_fill(objective, network, params, VOCAB, mesh, top_k=3, batch=2)
    filled = fill(TEXTS)
    assert [len(masks) for masks in filled] == [2, 0, 1, 1]
    assert "texts: 50 %, 2 of 4" in capsys.readouterr().err
    for text, masks in zip(TEXTS, filled, strict=True):
        if not masks:
            continue
        p_LV = probabilities(network, params, text, first=first)
        at_masks = p_LV[1:-1][np.array(text) == MASK]
        for expected, candidates in zip(at_masks, masks, strict=True):
            best = np.argsort(-expected)[:3]
            assert [candidate.token for candidate in candidates] == best.tolist()
            actual = [candidate.probability for candidate in candidates]
            np.testing.assert_allclose(actual, expected[best], rtol=1e-4)


def test_a_text_is_read_beside_another_one(make_model, mesh):
    """bos, text, eos, other, eos, in token types 0 and 1; its masks are not filled,
    and rows of another width have the same candidates."""
    objective, network, params = make_model("mlm", token_types=2)
    fill = make_fill(objective, network, params, VOCAB, mesh, top_k=3)
    text, other = [60, MASK, 70], [60, 61, MASK, 70]
    ((found,),) = fill([text], [other])
    row = [VOCAB.bos_id, *text, VOCAB.eos_id]
    expected = probabilities(network, params, text, other)[2]
    assert [each.token for each in found] == np.argsort(-expected)[:3].tolist()
    actual = [each.probability for each in found]
    np.testing.assert_allclose(actual, np.sort(expected)[:-4:-1], rtol=1e-4)
    ((wider,),) = fill([text], [other], width=len(row) + 12)
    assert [each.token for each in wider] == [each.token for each in found]
    assert fill([text])[0][0] != found


def test_a_mesh_changes_nothing(make_model, mesh):
    model = make_model("mlm")
    alone = make_fill(*model, VOCAB, mesh)(TEXTS)
    sharded = make_fill(*model, VOCAB, mesh_of(data=2, fsdp=2, tensor=2))(TEXTS)
    for expected, actual in zip(alone, sharded, strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-4)


@pytest.mark.parametrize("name", ["lm", "plm", "dae", "mass"])
def test_objectives_that_predict_no_masks_are_refused(name, make_model, mesh):
    objective, network, params = make_model(name)
    with pytest.raises(UserError, match=f"objective {name} does not predict masked"):
        make_fill(objective, network, params, VOCAB, mesh)


def test_a_mask_is_not_filled_where_its_token_is_predicted_elsewhere():
    for name, fields in (
        ("mlm", {"predict_at": "previous"}),
        ("tlm", {"predict": "next"}),
        ("mlm", {"mask_fraction": 0.0}),
    ):
        check_fills(objectives.make_objective(name))
        with pytest.raises(UserError, match=f"objective {name} does not predict"):
            check_fills(objectives.make_objective(name, **fields))
    with pytest.raises(UserError, match="palimpsest generate writes the masked tok"):
        check_fills(objectives.make_objective("masked_diffusion", block_size=4))
