"""Mutants of predictions, their metrics and the intervals of these."""

from tests.proofs.mutation import Mutant

PREDICTIONS = "research/evaluation/predictions.py"
TEST_PREDICTIONS = "tests/evaluation/test_predictions.py"
TEST_COMPOSITE = "tests/objectives/inputs/test_composite.py"

MUTANTS = [
    Mutant(
        "packed rows are evaluated with a sampled softmax",
        "research/objectives/inputs/packed_rows.py",
        "self.with_fields(objective=self.objective.for_evaluation())",
        "self",
        TEST_COMPOSITE,
        "training_alone",
    ),
    Mutant(
        "what is distilled is evaluated with label smoothing",
        "research/objectives/inputs/taught.py",
        "return self.with_fields(base=fields)",
        "return self",
        TEST_COMPOSITE,
        "training_alone",
    ),
    Mutant(
        "parts are evaluated with label smoothing",
        "research/objectives/inputs/composite.py",
        "return _freeze(dict(fields) | changed)",
        "return fields",
        TEST_COMPOSITE,
        "training_alone",
    ),
    Mutant(
        "a perplexity has label smoothing",
        "research/objectives/dae.py",
        "self.with_fields(label_smoothing=0.0, z_loss=0.0)",
        "self.with_fields(z_loss=0.0)",
        TEST_COMPOSITE,
        "training_alone",
    ),
    Mutant(
        "a text of several chunks is predicted by its first one",
        PREDICTIONS,
        'return np.mean([row["logits"] for row in self.arrays], axis=0)',
        'return self.arrays[0]["logits"]',
        TEST_PREDICTIONS,
        "mean_of_their_logits",
    ),
    Mutant(
        "predictions are those of the next document",
        PREDICTIONS,
        "each = range(number + begin, number + end)",
        "each = range(number + begin + 1, number + end + 1)",
        TEST_PREDICTIONS,
        "oracle_has_every_item_right",
    ),
    Mutant(
        "words past the row are left out of the score",
        PREDICTIONS,
        "    missing = len(gold) - len(prediction)\n",
        "    gold, missing = gold[: len(prediction)], 0\n",
        TEST_PREDICTIONS,
        "words_past_the_row",
    ),
    Mutant(
        "a start counts in every window that has it",
        "research/evaluation/answer_spans.py",
        "if _window_of(windows, window.first + start_K1[row, 0]) != number:",
        "if False:",
        "tests/evaluation/test_answer_spans.py",
        "exhaustive_search",
    ),
    Mutant(
        "articles are removed before punctuation",
        "research/metrics/squad.py",
        '_ARTICLES.sub(" ", answer.lower().translate(_PUNCTUATION))',
        '_ARTICLES.sub(" ", answer.lower()).translate(_PUNCTUATION)',
        "tests/metrics/test_squad.py",
        "normalisation_and_f1",
    ),
    Mutant(
        "an answer without words is right in version 1.1",
        "research/metrics/squad.py",
        "if no_answers and not (found and right):",
        "if not (found and right):",
        "tests/metrics/test_squad.py",
        "versions_differ",
    ),
    Mutant(
        "an interval over items is as narrow as if each group were an evaluation",
        "research/evaluation/multi_bootstrap.py",
        "return (count * metric(items) - (count - 1) * np.array(without)).T",
        "return np.array(without).T",
        TEST_PREDICTIONS,
        "groups_of_the_items",
    ),
    Mutant(
        "groups of the jackknife are neighbours in the file",
        PREDICTIONS,
        "shuffled = np.random.default_rng(0).permutation(len(known))",
        "shuffled = np.arange(len(known))",
        TEST_PREDICTIONS,
        "groups_of_the_items",
    ),
    Mutant(
        "a single run's margin over items is shown as that over seeds",
        "launch/reports/notes.py",
        "    counts.discard(1)\n",
        "",
        "tests/launch/reports/test_tables.py",
        "single_run",
    ),
    Mutant(
        "a pretraining that learnt no context passes for one that did",
        "research/evaluation/learning.py",
        "return 0 < (1 - SMALL_GAIN) * token_entropy < loss",
        "return 0 < (1 + SMALL_GAIN) * token_entropy < loss",
        "tests/launch/reports/test_notes.py",
        "learnt_nothing",
    ),
]
