"""Mutants of word vectors."""

from tests.proofs.mutation import Mutant

COUNTS = "research/objectives/corruption/word_counts.py"
WINDOWS = "research/objectives/corruption/word_windows.py"
SCORES = "research/objectives/losses/word_scores.py"
CBOW = "research/objectives/cbow.py"
FILES = "research/files/vector_files.py"
ASKED = "research/evaluation/word_vectors.py"
TEST = "tests/objectives/test_skipgram.py"
TEST_FILES = "tests/files/test_vector_files.py"
TEST_ASKED = "tests/evaluation/test_word_vectors.py"

GLOVE = "research/objectives/glove.py"
CELLS = "research/data/cooccurrences.py"
SUBWORDS = "research/networks/layers/subwords.py"
TEST_SUBWORDS = "tests/networks/test_subwords.py"
ADAGRAD = "research/optimizers/adagrad.py"
TEST_GLOVE = "tests/objectives/test_glove.py"

MUTANTS = [
    Mutant(
        "a judgement that is no number makes Spearman's correlation NaN",
        ASKED,
        "if not math.isfinite(judged := float(score)):",
        "if not (judged := float(score)):",
        TEST_ASKED,
        "wrong_are_refused",
    ),
    Mutant(
        "bytes of a hash have no sign",
        SUBWORDS,
        "signed = byte - 256 if byte > 127 else byte",
        "signed = byte",
        TEST_SUBWORDS,
        "hashes",
    ),
    Mutant(
        "the end of a word is an n-gram of its own",
        SUBWORDS,
        "if size > 1 or 0 < begin < end - 1",
        "if size > 1 or 0 < begin",
        TEST_SUBWORDS,
        "ngrams_are",
    ),
    Mutant(
        "pieces get their share of the gradient alone",
        SUBWORDS,
        'if self.gradient == "sum":',
        'if self.gradient == "none":',
        TEST_SUBWORDS,
        "a_step",
    ),
    Mutant(
        "a word that the text lacks has the vector of another n-gram",
        SUBWORDS,
        "        found[found] = self.numbers[at[found]] == np.array(numbers)[found]\n",
        "",
        TEST_SUBWORDS,
        "the_text_lacks",
    ),
    Mutant(
        "the mean is over n-grams without the word",
        SUBWORDS,
        "return 1 + np.bincount",
        "return np.bincount",
        TEST_SUBWORDS,
        "a_step",
    ),
    Mutant(
        "words meet as much at any distance",
        CELLS,
        "np.full(met.sum(), 1 / distance)",
        "np.full(met.sum(), 1.0)",
        TEST_GLOVE,
        "as_the_tool_counts",
    ),
    Mutant(
        "words of two lines meet",
        CELLS,
        "met = (line[:-distance] == line[distance:]) & fresh[distance:]",
        "met = fresh[distance:]",
        TEST_GLOVE,
        "as_the_tool_counts",
    ),
    Mutant(
        "a word that is too rare takes room",
        CELLS,
        "known = [index[word] for word in part if word in index]",
        "known = [index.get(word, 0) for word in part]",
        TEST_GLOVE,
        "as_the_tool_counts",
    ),
    Mutant(
        "words that two chunks share meet twice",
        CELLS,
        " & fresh[distance:]",
        "",
        TEST_GLOVE,
        "as_the_tool_counts",
    ),
    Mutant(
        "files are merged beyond the end of a block",
        CELLS,
        "bound = min(more, default=max(ends))",
        "bound = max(ends)",
        TEST_GLOVE,
        "as_the_tool_counts",
    ),
    Mutant(
        "cells keep the order of their words within a file",
        CELLS,
        "yield rng.permutation(np.fromfile(file, CELL))",
        "yield np.fromfile(file, CELL)",
        TEST_GLOVE,
        "any_order",
    ),
    Mutant(
        "cells beyond the maximum count more",
        GLOVE,
        "np.minimum(1.0, (x / self.x_max) ** self.alpha)",
        "(x / self.x_max) ** self.alpha",
        TEST_GLOVE,
        "weighted_up",
    ),
    Mutant(
        "words have no bias of their own",
        GLOVE,
        " + net.token_bias(batch)",
        " + 0 * net.token_bias(batch)",
        TEST_GLOVE,
        "released_code",
    ),
    Mutant(
        "AdaGrad divides by the sum with the step's own gradient",
        ADAGRAD,
        'squared if self.sum_includes == "step" else state.sums',
        "squared",
        TEST_GLOVE,
        "released_code",
    ),
    Mutant(
        "a negative that is the target pushes it away",
        SCORES,
        "jnp.where(negative == target[..., None], 0.0, -1.0)",
        "-jnp.ones(negative.shape)",
        TEST,
        "a_step_of_skip_gram or shifted_pmi",
    ),
    Mutant(
        "negatives are redrawn once, and may be the target again",
        COUNTS,
        "while redraw and (same",
        "if redraw and (same",
        TEST,
        "shifted_pmi",
    ),
    Mutant(
        "negatives are drawn by their counts",
        COUNTS,
        "count[word] ** float(power)",
        "count[word] ** 1.0",
        TEST,
        "law_of_their_power",
    ),
    Mutant(
        "every window is whole",
        WINDOWS,
        "reach = 1 + (drawn * window).astype(np.int32)",
        "reach = np.full(drawn.shape, window, np.int32)",
        TEST,
        "near_words",
    ),
    Mutant(
        "a window may have no width",
        WINDOWS,
        "reach = 1 + (drawn * window)",
        "reach = (drawn * (window + 1))",
        TEST,
        "near_words",
    ),
    Mutant(
        "words are kept by the square root alone",
        COUNTS,
        "np.sqrt(ratio) + ratio",
        "np.sqrt(ratio)",
        TEST,
        "as_the_tool_keeps_them",
    ),
    Mutant(
        "words that are left out keep their room in windows",
        WINDOWS,
        "column = (np.cumsum(kept, axis=1) - 1)[row, place]",
        "column = place",
        TEST,
        "comes_before_windows",
    ),
    Mutant(
        "a window crosses the end of a sentence",
        WINDOWS,
        "number = np.cumsum(here & (raw == vocab.eos_id), axis=1)",
        "number = np.zeros(raw.shape, np.int32)",
        TEST,
        "comes_before_windows",
    ),
    Mutant(
        "the gradient of a bag is divided among its words",
        CBOW,
        'if self.context_gradient == "sum":',
        'if self.context_gradient == "none":',
        TEST,
        "cbow_gives",
    ),
    Mutant(
        "bit 1 of a code is yes",
        SCORES,
        "1.0 - 2.0 * code",
        "2.0 * code - 1.0",
        TEST,
        "hierarchical",
    ),
    Mutant(
        "of two equal counts a word is merged before an inner node",
        COUNTS,
        "weight[leaf] < weight[inner]",
        "weight[leaf] <= weight[inner]",
        TEST,
        "huffman",
    ),
    Mutant(
        "the last columns of a word with spaces are not its vector",
        FILES,
        'line.rsplit(b" ", width)',
        'line.split(b" ", width)',
        TEST_FILES,
        "other_tools",
    ),
    Mutant(
        "a header that announces other vectors is believed",
        FILES,
        "if count is not None and len(words) != count:",
        "if count is None and len(words) != count:",
        TEST_FILES,
        "refused",
    ),
    Mutant(
        "words that a file lacks are drawn by their row",
        FILES,
        "zlib.crc32(word.encode())",
        "number",
        TEST_FILES,
        "missing",
    ),
    Mutant(
        "the answer to an analogy may be one of its words",
        ASKED,
        "        np.put_along_axis(cosine, given, -np.inf, axis=1)\n",
        "",
        TEST_ASKED,
        "analogies",
    ),
    Mutant(
        "questions with an unknown word count as wrong",
        ASKED,
        "now = (correct, len(known), len(questions))",
        "now = (correct, len(questions), len(questions))",
        TEST_ASKED,
        "analogies",
    ),
]
