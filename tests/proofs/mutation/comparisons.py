"""Intervals, tests and verdicts that say more than the runs do."""

from tests.proofs.mutation import Mutant

STATISTICS = "research/evaluation/statistics.py"
TEST_STATISTICS = "tests/evaluation/test_statistics.py"
LEDGER = "launch/reports/ledger.py"
TEST_LEDGER = "tests/launch/reports/test_ledger.py"
CELLS = "launch/reports/cells.py"
TEST_TABLES = "tests/launch/reports/test_tables.py"

MUTANTS = [
    Mutant(
        "a claim is recorded from rows that are the same runs",
        "launch/claims.py",
        "if np.array_equal(better, worse):",
        "if False:",
        TEST_LEDGER,
        "recorded_from",
    ),
    Mutant(
        "an interval forgets that the items are draws",
        STATISTICS,
        "np.maximum(items - interaction, 0) / (num_seeds * num_items)",
        "0 * items",
        TEST_STATISTICS,
        "two_way or keeps_its_level",
    ),
    Mutant(
        "the seeds' few degrees of freedom are forgotten for those of the items",
        STATISTICS,
        "(weight * by_seeds + (1 - weight) * by_items)",
        "by_items",
        TEST_STATISTICS,
        "keeps_its_level",
    ),
    Mutant(
        "unpaired in place of paired: an arm is compared with the baseline's mean",
        STATISTICS,
        "gap = values - baseline\n",
        "gap = values - baseline.mean(0)\n",
        TEST_STATISTICS,
        "differences_alone",
    ),
    Mutant(
        "an adjusted p-value is below that of a smaller one",
        STATISTICS,
        "np.maximum.accumulate(steps)",
        "steps",
        TEST_STATISTICS,
        "published_example",
    ),
    Mutant(
        "the multi-bootstrap draws items alone",
        "research/evaluation/multi_bootstrap.py",
        "by_seed[rng.integers(len(by_seed), size=len(by_seed))].mean()",
        "by_seed.mean()",
        "tests/evaluation/test_multi_bootstrap.py",
        "bring_their_variance",
    ),
    Mutant(
        "one seed carries a verdict",
        "research/evaluation/comparison.py",
        "if self.difference.count < 2:",
        "if False:",
        "tests/evaluation/test_comparison.py",
        "of_the_sign",
    ),
    Mutant(
        "verdicts of a table are not corrected for their number",
        "research/evaluation/comparison.py",
        "if self.adjusted_p > LEVEL:",
        "if self.p > LEVEL:",
        "tests/evaluation/test_comparison.py",
        "can_undo",
    ),
    Mutant(
        "fine-tunings of one pretraining count as pretraining seeds",
        "launch/sweeps/trial.py",
        'return origin.pretraining_seed if origin else self.config["seed"]',
        'return self.config["seed"]',
        TEST_TABLES,
        "no_further_pretraining_seeds",
    ),
    Mutant(
        "the FLOPs of a budget depend on a vocabulary file of this machine",
        "launch/sweeps/budgets.py",
        '{**keys, **ON_ONE_DEVICE, "data.vocabulary": "unigram"}',
        "{**keys, **ON_ONE_DEVICE}",
        "tests/launch/sweeps/test_budgets.py",
        "vocabulary_file",
    ),
    Mutant(
        "a claim's result that was edited gets a verdict",
        LEDGER,
        'if content.pop("digest", None) != digest(content):',
        'if not content.pop("digest", None):',
        TEST_LEDGER,
        "untouched_result",
    ),
    Mutant(
        "a claim's plan may be changed after the runs",
        LEDGER,
        'Plan(**content["plan"]) != claim.plans[scale]',
        "False",
        TEST_LEDGER,
        "untouched_result",
    ),
    Mutant(
        "a claim about a loss is confirmed by a higher one",
        LEDGER,
        "sign = 1 if result.higher_is_better else -1",
        "sign = 1",
        TEST_LEDGER,
        "what_a_result_decides",
    ),
    Mutant(
        "a cell with a missing run is filled from the other runs",
        CELLS,
        "if not all(trial.done and column.ready(trial) for trial in trials):",
        "if not any(trial.done and column.ready(trial) for trial in trials):",
        TEST_TABLES,
        "leaves_its_cells_empty",
    ),
    Mutant(
        "a learning rate is picked by the scores that the table shows",
        CELLS,
        "metric_value(column.picked_by, t)",
        "metric_value(column.value, t)",
        TEST_TABLES,
        "picked_by_another_split",
    ),
    Mutant(
        "a stand-in's column has the paper's header",
        "launch/reports/tables.py",
        "if self.stand_in else self.name",
        "if False else self.name",
        TEST_TABLES,
        "stands_in",
    ),
    Mutant(
        "runs of one cell that read different data are not marked",
        CELLS,
        'len({number.origin["data"] for number in self.numbers}) > 1',
        "False",
        "tests/launch/reports/test_formats.py",
        "different_data",
    ),
    Mutant(
        "the test split is scored at each evaluation",
        "research/evaluation/evaluations.py",
        'if split == "test" and len(self._programs) > 1 and not last:',
        "if False:",
        "tests/launch/test_evaluate.py",
        "scored_once",
    ),
]
