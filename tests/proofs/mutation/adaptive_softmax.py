"""Mutants of the adaptive softmax and input."""

from tests.proofs.mutation import Mutant
from tests.proofs.mutation.network import LOSSES, SOFTMAX

ADAPTIVE = "research/networks/shared/adaptive.py"
TEST_ADAPTIVE = "tests/objectives/losses/test_adaptive_softmax.py"

TEST_LAWS = "tests/laws/test_network.py"

MUTANTS = [
    Mutant(
        "tables of clusters begin as model.init says, not within model.table_range",
        "research/networks/recurrent/lstm_stack.py",
        'AdaptiveEmbedding(options, size, init, name="token")',
        'AdaptiveEmbedding(options, size, name="token")',
        "tests/networks/recurrent/test_lstm.py",
        "within_their_range",
    ),
    Mutant(
        "an LSTM has one softmax where clusters are read out",
        "research/networks/recurrent/lstm_stack.py",
        "    if options.cutoffs:\n        return AdaptiveHead",
        "    if False:\n        return AdaptiveHead",
        TEST_LAWS,
        "adaptive_softmax",
    ),
    Mutant(
        "clusters read the joined states of an LSTM that reads from both ends",
        "research/networks/recurrent/two_lstms.py",
        "        if self.options.cutoffs:\n",
        "        if False:\n",
        TEST_LAWS,
        "adaptive_softmax",
    ),
    Mutant(
        "what reads one softmax ends in a traceback with clusters",
        ADAPTIVE,
        "    feature = table = bias = size = property(_refuse)\n",
        "",
        "tests/networks/shared/test_adaptive.py",
        "reads_one_softmax",
    ),
    Mutant(
        "a rare word's probability is that of its cluster",
        LOSSES,
        "        total += loss\n",
        "        total += 0 * loss\n",
        TEST_ADAPTIVE,
        "add_up_to_one",
    ),
    Mutant(
        "all positions count in every cluster",
        LOSSES,
        "jnp.where(inside_BK, weight_BK, 0.0), right_BK",
        "weight_BK, right_BK",
        TEST_ADAPTIVE,
        "definitions",
    ),
    Mutant(
        "a rare word is correct without its cluster",
        LOSSES,
        "jnp.where(right > 0, found, 0.0)",
        "found",
        TEST_ADAPTIVE,
        "definitions and dense",
    ),
    Mutant(
        "every chunk of a cluster is skipped",
        SOFTMAX,
        "jnp.any(chunk[2] > 0)",
        "jnp.any(chunk[2] < 0)",
        TEST_ADAPTIVE,
        "definitions and fused",
    ),
    Mutant(
        "an adaptive softmax in a quantised network has float tables",
        "research/networks/shared/options.py",
        '    "quantization": ("none",),\n',
        "",
        "tests/networks/test_options.py",
        "names_the_wrong_key",
    ),
    Mutant(
        "the first projection of the adaptive softmax is that of the input",
        ADAPTIVE,
        "if not number:  # tied",
        "if number < 0:  # tied",
        "tests/networks/shared/test_adaptive.py",
        "has_a_table",
    ),
    Mutant(
        "the softmax of common words lacks the clusters",
        ADAPTIVE,
        "sizes[0] += len(options.cutoffs)",
        "sizes[0] += 0",
        "tests/networks/shared/test_adaptive.py",
        "has_a_table",
    ),
]
