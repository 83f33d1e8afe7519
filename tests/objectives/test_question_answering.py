"""question_answering: the target of a window is the answer, or the pooled position."""

import itertools

import jax
import numpy as np
import pytest

from research import networks, objectives
from research.contract.batch import ANSWER_END, ANSWER_START
from research.data.documents import ANSWERABLE, UNANSWERABLE
from tests.testing.example_batches import keys, texts, vocab

VOCAB = vocab()


def example():
    """An answer, both halves of one, one in the question, no label, no text."""
    found = texts(12, [12, 12, 9, 12, 12, 0], VOCAB)
    flags = found.flags.copy()
    flags[0, 6] |= ANSWER_START
    flags[0, 8] |= ANSWER_END
    flags[1, 8] |= ANSWER_START
    flags[2, 6] |= ANSWER_END
    flags[3, 1] |= ANSWER_START | ANSWER_END
    flags[4, 6] |= ANSWER_START | ANSWER_END
    first = np.where(found.length > 0, 4, 0).astype(np.int32)
    label = np.array([0, 0, 1, 0, -1, 0], np.int32)
    return found._replace(flags=flags, first_length=first, label=label)


@pytest.mark.parametrize("name", ["bert", "roberta", "xlnet"])
def test_the_answers_tokens_are_those_of_the_text(name):
    objective = objectives.make_objective("question_answering", format=name)
    text = example()
    batch = objective.corrupt(text, keys(6), VOCAB, 24)
    first, last = batch["answer"][0]
    assert batch["token"][0, first : last + 1].tolist() == text.token[0, 6:9].tolist()
    for row in (1, 2, 3):
        token = batch["token"][row, batch["answer"][row]]
        assert (token == VOCAB.bos_id).all()
    assert batch["answer_weight"].tolist() == [1, 1, 1, 1, 0, 0]
    for row in range(5):
        begin, size = batch["context"][row]
        raw = text.token[row, 4 : text.length[row]]
        assert batch["token"][row, begin : begin + size].tolist() == raw.tolist()
    assert batch["context"][5].tolist() == [0, 0]


LENGTH, WIDTH = 24, 4


class RandomHeads:
    """A network with random states and heads."""

    def __init__(self):
        rng = np.random.default_rng(0)
        self.state = rng.normal(size=(6, LENGTH, WIDTH)).astype(np.float32)
        sizes = {"start": (WIDTH, 1), "end": (2 * WIDTH, 1)}
        sizes |= {"unanswerable": (2 * WIDTH, 1), "span": (WIDTH, 2)}
        self.kernel = {name: rng.normal(size=size) for name, size in sizes.items()}
        self.turn = rng.normal(size=(2 * WIDTH, 2 * WIDTH))

    def states(self, batch):
        return jax.numpy.asarray(self.state)

    def head(self, name, states):
        hidden = np.asarray(states)
        if hidden.shape[-1] == 2 * WIDTH:
            hidden = np.tanh(hidden @ self.turn)
        return jax.numpy.asarray(hidden @ self.kernel[name], np.float32)


def log_softmax(logits):
    logits = np.float64(logits)
    return logits - np.log(np.exp(logits).sum())


def joint_log_p(net, batch, row):
    """(start, end) -> log p, for the positions of the context and the pooled one; the
    logit of there being no answer.
    """
    begin, size = batch["context"][row]
    pooled = int(np.flatnonzero(batch["token"][row] == VOCAB.bos_id)[0])
    positions = [*range(begin, begin + size), pooled]
    states = net.state[row]
    log_start = log_softmax(net.head("start", states[positions])[:, 0])
    found = {}
    for start, log_p in zip(positions, log_start, strict=True):
        pairs = [np.concatenate([states[end], states[start]]) for end in positions]
        log_end = log_softmax(net.head("end", np.stack(pairs))[:, 0])
        found |= {
            (start, end): log_p + log_q
            for end, log_q in zip(positions, log_end, strict=True)
        }
    mean = np.exp(log_start) @ states[positions]
    both = np.concatenate([states[pooled], mean])
    return found, float(net.head("unanswerable", both[None])[0, 0])


@pytest.mark.parametrize("name", ["bert", "xlnet"])
@pytest.mark.parametrize("n_best", [LENGTH, 2])
def test_a_joint_heads_best_candidate_and_loss_are_those_of_a_search(name, n_best):
    labels = (ANSWERABLE, UNANSWERABLE)
    objective = objectives.make_objective(
        "question_answering", format=name, head="joint", n_best=n_best
    )
    batch = objective.corrupt(example(), keys(6), vocab(labels=labels), LENGTH)
    net = RandomHeads()
    found = jax.device_get(objective.predictions(net, batch))
    terms, _ = objective.loss(net, batch, None)
    loss = unanswerable = 0.0
    for row in range(5):
        log_p, logit = joint_log_p(net, batch, row)
        assert found["null"][row] == pytest.approx(logit, abs=1e-4)
        starts = sorted({start for start, _ in log_p})
        by_start = {s: [(log_p[s, e], e) for e in starts] for s in starts}
        order = sorted(starts, key=lambda s: -sum(np.exp(p) for p, _ in by_start[s]))
        assert found["start"][row, : len(order)].tolist() == order[:n_best]
        for n, start in enumerate(order[:n_best]):
            best = sorted(by_start[start], reverse=True)[:n_best]
            assert found["end"][row, n, : len(best)].tolist() == [e for _, e in best]
            np.testing.assert_allclose(
                found["score"][row, n, : len(best)], [p for p, _ in best], atol=1e-4
            )
        if batch["answer_weight"][row]:
            loss -= log_p[tuple(batch["answer"][row].tolist())] / 2
            sign = -1 if batch["unanswerable"][row] else 1
            unanswerable += np.log1p(np.exp(sign * logit))
    assert float(terms["span"].total) == pytest.approx(loss, rel=1e-5)
    assert float(terms["unanswerable"].total) == pytest.approx(unanswerable, rel=1e-5)
    assert terms["span"].weight == terms["unanswerable"].weight == 4
    assert terms["unanswerable"].coef == 0.5
    # A question has no answer; in XLNet's format a window has none.
    expected = [0, 1, 1, 1, 0, 0] if name == "xlnet" else [0, 0, 1, 0, 0, 0]
    assert batch["unanswerable"].tolist() == expected


def test_a_linear_heads_candidates_are_the_best_starts_and_ends_of_the_context():
    objective = objectives.make_objective("question_answering", n_best=3)
    batch, net = objective.corrupt(example(), keys(6), VOCAB, LENGTH), RandomHeads()
    found = jax.device_get(objective.predictions(net, batch))
    for row in range(5):
        begin, size = batch["context"][row]
        logits = np.asarray(net.head("span", net.state[row]))
        inside = range(begin, begin + size)
        starts, ends = (sorted(inside, key=lambda p: -logits[p, n])[:3] for n in (0, 1))
        assert found["start"][row].tolist() == starts
        assert found["end"][row].tolist() == [ends] * 3
        for (n, start), (m, end) in itertools.product(
            enumerate(starts), enumerate(ends)
        ):
            score = logits[start, 0] + logits[end, 1]
            assert found["score"][row, n, m] == pytest.approx(score, rel=1e-5)
        assert found["null"][row] == pytest.approx(logits[0].sum(), rel=1e-5)


def test_a_joint_heads_layers_are_electras_or_xlnets():
    def heads(name, head):
        objective = objectives.make_objective(
            "question_answering", format=name, head=head
        )
        return objective.needs(VOCAB).heads

    electra = networks.HeadSpec(1, "gelu", hidden=512)
    start = {"start": networks.HeadSpec(1, "none")}
    expected = start | {"end": electra, "unanswerable": electra}
    assert heads("bert", "joint") == expected
    assert heads("xlnet", "joint") == start | {
        "end": networks.HeadSpec(1, "tanh", shares_pooler=False, norm=True),
        "unanswerable": networks.HeadSpec(1, "tanh", shares_pooler=False, dropout=True),
    }
    assert heads("xlnet", "linear") == {"span": networks.HeadSpec(2, "none")}
