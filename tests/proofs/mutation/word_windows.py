"""Mutants of networks of windows of words, and of given vectors."""

from tests.proofs.mutation import Mutant

NNLM = "research/networks/words/nnlm.py"
CNN = "research/networks/words/word_cnn.py"
TEST = "tests/networks/test_windows_of_words.py"
TEST_LAWS = "tests/laws/test_network.py"
TEST_CONSTANTS = "tests/program/test_constants.py"
TEST_CLASSES = "tests/objectives/test_sequence_classification.py"
TEST_OPTIMIZER = "tests/optimize/test_optimizer.py"

MUTANTS = [
    Mutant(
        "the first word of a window is the earliest",
        NNLM,
        "for n in range(context)]",
        "for n in reversed(range(context))]",
        TEST,
        "equation",
    ),
    Mutant(
        "a window reads words of the segment before",
        NNLM,
        "is_same = (number >= 0) & (found == segment) & (segment > 0)",
        "is_same = (number >= 0) & (segment > 0)",
        TEST_LAWS,
        "packed_texts and nnlm",
    ),
    Mutant(
        "padding is a word of a window",
        NNLM,
        "order_BN = jnp.argsort(segment_BN == 0, axis=1, stable=True)",
        "order_BN = jnp.broadcast_to("
        "jnp.arange(segment_BN.shape[1]), segment_BN.shape)",
        TEST_LAWS,
        "a_cache_changes and nnlm",
    ),
    Mutant(
        "windows have words of other segments",
        CNN,
        "is_same = segment[:, begin : begin + length] == segment_BL",
        "is_same = segment[:, begin : begin + length] > 0",
        TEST,
        "best_window",
    ),
    Mutant(
        "windows that reach beyond a text are left out",
        CNN,
        "for own in range(width)  # the",
        "for own in range(1)  # the",
        TEST,
        "best_window",
    ),
    Mutant(
        "two channels are one",
        CNN,
        'channels = 2 if self.options.channels == "two" else 1',
        "channels = 1",
        TEST,
        "given_vectors",
    ),
    Mutant(
        "the last vector of a word counts",
        "research/files/vector_files.py",
        "in reversed([*enumerate(words)])",
        "in [*enumerate(words)]",
        TEST_CONSTANTS,
        "vectors_of_a_file",
    ),
    Mutant(
        "the maximum over time includes padding",
        "research/objectives/tasks/sequence_classification.py",
        "largest_BD = jnp.max(jnp.where(here_BL1, states_BLD, -jnp.inf), axis=1)",
        "largest_BD = jnp.max(states_BLD, axis=1)",
        TEST_CLASSES,
        "concat_pooling",
    ),
    Mutant(
        "norms are limited before the step",
        "research/optimize/max_norm.py",
        "after = param + update",
        "after = param",
        TEST_OPTIMIZER,
        "norms_of_heads",
    ),
    Mutant(
        "norms of frozen heads are limited",
        "research/optimize/optimizer.py",
        "chain.append(_without_frozen(limit, parts) if parts else limit)",
        "chain.append(limit)",
        TEST_OPTIMIZER,
        "norms_of_frozen",
    ),
    Mutant(
        "two channels without vectors are one",
        "research/networks/words/word_cnn.py",
        'if self.channels == "two" and not given:',
        "if False:",
        "tests/networks/test_windows_of_words.py",
        "two_channels_need",
    ),
]
