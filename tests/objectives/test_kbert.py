"""kbert: the tree of the paper's figure, what attends to what, and what is hidden."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from research import networks, objectives
from research.contract.batch import Lexicon, Triples, VocabInfo, attention_mask
from research.objectives.knowledge import graph, sentence_tree
from research.objectives.layout import input_format
from tests.testing import example_batches
from tests.testing.compiled_apply import apply
from tests.testing.model_options import model_options
from tests.testing.trees import make_params

WORDS = "pad bos eos mask unk Tim Cook CEO Apple is visiting Beijing capital China is_a"
WORDS = [*WORDS.split(), "City", "now"]
SENTENCE = "bos Tim Cook is visiting Beijing now"
ORDER = [0, 1, 2, 7, 8, 3, 4, 5, 9, 10, 11, 12, 6]
"""Columns of the grown sentence in the order of the paper's figure."""


def ids(text):
    return np.array([WORDS.index(word) for word in text.split()], np.int32)


def padded(*entries):
    rows = [ids(entry) for entry in entries]
    size = np.array([*map(len, rows)], np.int32)
    token = np.full((len(rows), size.max()), -1, np.int32)
    for row, entry in zip(token, rows, strict=True):
        row[: len(entry)] = entry
    return token, size


def make_vocab(triples):
    """A vocabulary of WORDS, and its lexicon of (head, relation, tail)."""
    entities = [*dict.fromkeys(end for h, _, t in triples for end in (h, t))]
    names = [*dict.fromkeys(relation for _, relation, _ in triples)]
    ends = [
        [entities.index(h) for h, _, _ in triples],
        [names.index(r) for _, r, _ in triples],
        [entities.index(t) for *_, t in triples],
        [0] * len(triples),
    ]
    token, size = padded(*entities)
    triples = Triples(*np.array(ends, np.int32), *padded(*names))
    lexicon = Lexicon(token, size, 0 * size, ("",), triples)
    special = np.arange(len(WORDS)) < 4
    ordinary = np.arange(5, len(WORDS), dtype=np.int32)
    info = VocabInfo(len(WORDS), 0, 1, 2, 3, 4, (), special, ordinary, lexicon=lexicon)
    return info._replace(labels=("a", "b"))


TRIPLES = [
    ("Cook", "CEO", "Apple"),
    ("Beijing", "capital", "China"),
    ("Beijing", "is_a", "City"),
    ("Beijing", "is", "now"),  # the third: no branch
]
VOCAB = make_vocab(TRIPLES)


def grow(
    text=SENTENCE, vocab=VOCAB, length=14, most=2, branch_text="relation_tail", **k
):
    """The group of a sentence with branches, of one row."""
    token = ids(text)[None]
    group = input_format.full_input(token, np.array([token.shape[1]]))
    branches = sentence_tree.make_branches(vocab.lexicon, most, branch_text)
    return sentence_tree.grow(group, branches, vocab, length, **k)


def test_the_tree_is_that_of_the_papers_figure():
    """Figure 2 of Liu et al. 2020, with the visible matrix of figure 3."""
    grown = grow()
    words = [WORDS[n] for n in grown["token"][0][ORDER]]
    figure = "bos Tim Cook CEO Apple is visiting Beijing capital China is_a City now"
    assert words == figure.split()
    position = [0, 1, 2, 3, 4, 3, 4, 5, 6, 7, 6, 7, 6]
    assert grown["position"][0][ORDER].tolist() == position
    trunk, cook, beijing = "111..111....1", "11111111....1", "111..11111111"
    of_cook = "..111........"
    rows = [trunk, trunk, cook, of_cook, of_cook, trunk, trunk, beijing]
    rows += [".......111...", ".......111...", ".......1..11.", ".......1..11.", trunk]
    mask = attention_mask(grown)[0]
    assert not mask[13].any() and not mask[:, 13].any()
    found = ["".join(".1"[int(x)] for x in row) for row in mask[ORDER][:, ORDER]]
    assert found == rows
    assert mask.sum() == 73 and (mask == mask.T).all()
    row = {name: array[0] for name, array in grown.items()}
    tree = [([0, 1], []), ([2], [[7, 8]]), ([3, 4], []), ([5], [[9, 10], [11, 12]])]
    assert sentence_tree.read_tree(row) == [*tree, ([6], [])]


def test_without_the_visible_matrix_all_is_read_in_flat_order():
    grown = grow(visible="all", positions="flat")
    assert grown["position"][0][ORDER].tolist() == [*range(13)]
    assert attention_mask(grown)[0].sum() == 13 * 13


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"branch_text": "tail"}, "Apple China City"),
        ({"most": 1}, "CEO Apple capital China"),
        ({"most": 0}, ""),
        ({"length": 11}, "CEO Apple capital China"),  # the third branch does not fit
        ({"length": 8}, ""),
        ({"text": "bos mask Beijing is mask"}, "capital China is_a City"),
    ],
)
def test_branches_are_whole_and_those_of_words_that_are_read(fields, words):
    grown = grow(**fields)
    trunk = len(fields.get("text", SENTENCE).split())
    found = [WORDS[n] for n in grown["token"][0, trunk:] if n]
    assert found == words.split()


def reference(trunk, branches):
    """[L, L] bool: the visible matrix by its definition (section 3.3).

    Args:
      trunk: the word of each token of the trunk.
      branches: the word of each branch, and its number of tokens.
    """
    word = [*trunk, *(w for w, size in branches for _ in range(size))]
    number = [0] * len(trunk)
    number += [n for n, (_, size) in enumerate(branches, 1) for _ in range(size)]
    mask = np.zeros((len(word),) * 2, bool)
    for q in range(len(word)):
        for k in range(len(word)):
            both = number[q] == 0 and number[k] == 0
            beside = word[q] == word[k] and 0 in (number[q], number[k])
            same = number[q] == number[k]
            mask[q, k] = both or beside or (same and word[q] == word[k])
    return mask


def test_any_tree_attends_by_the_definition():
    """Random texts over entries of one and two tokens with up to four branches."""
    rng = np.random.default_rng(0)
    heads = ["Tim", "Cook CEO", "is", "visiting now"]
    for _ in range(200):
        triples = [
            (str(rng.choice(heads)), "is_a", str(rng.choice(["City", "China Apple"])))
            for _ in range(rng.integers(1, 8))
        ]
        vocab = make_vocab(triples)
        known = [head for head in heads if any(head == h for h, *_ in triples)]
        chosen = [str(rng.choice([*heads, "Beijing"])) for _ in range(5)]
        grown = grow(" ".join(chosen), vocab=vocab, length=80, most=4)
        trunk, branches, number = [], [], 0
        for part in chosen:
            words = [part] if part in known else part.split()
            for word in words:
                trunk += [number] * len(word.split())
                own = [t for h, _, t in triples if h == word][:4]
                branches += [(number, 1 + len(tail.split())) for tail in own]
                number += 1
        expected = reference(trunk, branches)
        size = len(expected)
        mask = attention_mask(grown)[0]
        np.testing.assert_array_equal(mask[:size, :size], expected)
        assert not mask[size:].any() and not mask[:, size:].any()


@pytest.mark.parametrize(("layers", "is_seen"), [(1, False), (2, True)])
def test_a_sibling_branch_is_seen_through_the_word_alone(layers, is_seen):
    """Another token in a branch changes no state of its sibling in one layer; in two
    layers the word that both are of carries it."""
    objective = objectives.make_objective("kbert")
    net = networks.build(
        model_options(layers=layers, width=16, heads=2, feedforward=16),
        objective.needs(VOCAB),
        VOCAB,
    )
    grown = jax.tree.map(jnp.asarray, grow())

    def states(net, token):
        return net.states(grown | {"token": token})

    token = grown["token"]
    of_sibling = token.at[0, 11].set(5)  # "is_a", of the second branch of Beijing
    params = make_params(net, lambda net: states(net, token))
    before, after = (
        apply(net, params, lambda net, t=t: states(net, t)) for t in (token, of_sibling)
    )
    first_branch = slice(9, 11)
    same = bool((before[0, first_branch] == after[0, first_branch]).all())
    assert same != is_seen
    assert not (before[0, 5] == after[0, 5]).all(), "the word sees its branches"


def test_a_shuffled_graph_has_the_same_lengths():
    vocab = example_batches.vocab(96)
    graphs = [graph.graph_of(vocab, source) for source in graph.SOURCES]
    kept = [sentence_tree.make_branches(g.lexicon, 99, "tail") for g in graphs]
    assert np.array_equal(kept[0].size, kept[1].size)
    tails = [np.sort(each.token.ravel()) for each in kept]
    assert np.array_equal(*tails)
    assert not np.array_equal(kept[0].token, kept[1].token)
