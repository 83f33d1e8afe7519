"""RetroMAE: what a query sees, and the loss of the decoder by the published layers."""

import jax
import jax.numpy as jnp
import numpy as np

from research import networks, objectives
from research.contract.batch import rank_mask
from research.networks.transformer.one_stack import Transformer
from research.objectives.mlm.retromae import SEEN
from tests.testing import huggingface_goldens
from tests.testing.example_batches import keys, texts, vocab
from tests.testing.model_options import model_options


def test_a_query_sees_the_vector_specials_and_its_own_half_of_the_tokens():
    known, lengths = vocab(), [14, 9, 1, 0]
    objective = objectives.make_objective("retromae", unit="token")
    example = texts(14, lengths * 50, known)
    batch = objective.corrupt(example, keys(200), known, 16)
    seen = {name: batch[f"seen_{name}"] for name in SEEN}
    mask = rank_mask(seen, seen)
    for row, count in enumerate(lengths * 50):
        queries = mask[row, 1 : count + 1, : count + 2]
        assert queries[:, [0, count + 1]].all(), "bos and eos"
        assert not queries[:, 1:-1].diagonal().any(), "not its own token"
        hidden = max(1, round(0.5 * (count + 2)))
        assert (queries[:, 1:-1].sum(axis=1) == max(0, count - hidden)).all()
        assert batch["decoder_weight"][row].sum() == count
    others = mask[::4, 1:15, 1:15].sum(axis=0) + 50 * np.eye(14)
    assert (others > 8).all(), "which tokens these are differs from row to row"


def test_a_decoders_state_depends_on_no_token_that_its_query_does_not_see():
    """By exact gradients with respect to the embeddings of the decoder's tokens."""
    known = vocab()
    objective = objectives.make_objective("retromae", unit="token")
    batch = objective.corrupt(texts(14, [11], known), keys(1), known, 16)
    options = model_options(layers=2, width=32, heads=2, feedforward=32)
    network = networks.build(options, objective.needs(known), known)
    loss = lambda net: objective.loss(net, batch, None)[0]  # noqa: E731
    params = networks.unbox(networks.init(network, loss, jax.random.key(0)))
    probe = np.random.default_rng(0).normal(size=32)

    def decoded(nudge):
        def run(net):
            seen = []

            class Nudged:
                def __getattr__(self, name):
                    return getattr(net, name)

                def embed(self, group, vectors=None):
                    found = net.embed(group, vectors)
                    return found + nudge if vectors is None else found

                def future_outputs(self, *args, **keys):
                    seen.append(net.future_outputs(*args, **keys))
                    return seen[-1]

            objective.loss(Nudged(), batch, None)
            return seen[0].states[0] @ probe

        return networks.apply(network, params, run)

    jacobian = np.asarray(jax.jit(jax.jacrev(decoded))(jnp.zeros((1, 16, 32))))
    reads = np.abs(jacobian[:, 0]).max(axis=-1) > 0
    seen = {name: batch[f"seen_{name}"] for name in SEEN}
    expected = rank_mask(seen, seen)[0]
    expected[:, 0] = False  # the vector stands there
    np.testing.assert_array_equal(reads[1:12, :13], expected[1:12, :13])


def test_the_decoders_loss_is_that_of_the_published_layers():
    """With the published encoder of a golden; the decoder has its first layer's values.

    The number is of transformers' modules, called as in RetroMAEForPretraining.forward
    (staoxiao/RetroMAE at ee37587, src/pretrain/modeling.py), each query seeing the four
    tokens after it in the circle of positions 1 to 10, and positions 0 and 11.
    """
    golden = huggingface_goldens.load("bert")
    params = huggingface_goldens.params_of(golden)
    blocks = jax.tree.map(lambda x: x[:1], params["stack"]["blocks"])
    params["future_0"] = {"blocks": blocks}
    token = golden.golden["input/input_ids"][:3].astype(np.int32)
    position = np.broadcast_to(np.arange(12, dtype=np.int32), token.shape)
    zeros, inside = 0 * position, (position > 0) & (position < 11)
    rank = np.where(inside, position - 1, -1)
    last = rank + 4
    batch = {
        **{"token": token.copy(), "original": token, "position": position},
        **{"segment": zeros + 1, "token_type": zeros, "rank": zeros, "reach": zeros},
        **{
            "scored": zeros[:, :2],
            "target": zeros[:, :2],
            "weight": zeros[:, :2] + 0.0,
        },
        **{"seen_rank": rank, "seen_low": np.where(inside, rank + 1, -1)},
        "seen_reach": np.where(inside, np.minimum(last, 9), -1),
        "seen_low2": zeros - 1,
        "seen_reach2": np.where(inside, np.maximum(last - 10, -1), -1),
        "decoder_weight": inside.astype(np.float32),
    }
    batch["token"][:, [3, 7]] = 5
    network = Transformer(
        golden.network.options, 99, pattern="full", transform=True, future=1
    )
    objective = objectives.make_objective("retromae")
    loss = lambda net: objective.loss(net, batch, None)[0]["decoder"]  # noqa: E731
    term = jax.jit(lambda params: networks.apply(network, params, loss))(params)
    np.testing.assert_allclose(term.total / term.weight, 4.7683434, rtol=1e-5)
    assert jnp.shape(term.total) == () and term.weight == 30
