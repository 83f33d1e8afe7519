"""Mutants of length buckets: which rows share a batch, and how long it is."""

from tests.proofs.mutation import Mutant

BUCKETS = "research/data/source/length_buckets.py"
TEST = "tests/data/order/test_length_buckets.py"
TEST_PREDICTIONS = "tests/evaluation/test_predictions.py"

MUTANTS = [
    Mutant(
        "rows of length buckets have the step that they have without",
        "research/data/pipeline.py",
        "self.source.rows(counter[self._row_numbers(rows)], length, step)",
        "self.source.rows(counter[self._row_numbers(rows)], length)",
        TEST,
        "rows_have_the_step",
    ),
    Mutant(
        "a batch of several buckets has the shortest length",
        BUCKETS,
        "bucket[order].max(axis=1)",
        "bucket[order].min(axis=1)",
        TEST,
        "window",
    ),
    Mutant(
        "a batch has the length of the bucket above its longest text",
        BUCKETS,
        "np.searchsorted(self.lengths, needed)",
        'np.searchsorted(self.lengths, needed, side="right")',
        TEST,
        "fills",
    ),
    Mutant(
        "batches of a window go from short to long",
        BUCKETS,
        "permute(position, self.steps, seed=seed, epoch=number)",
        "position",
        TEST,
        "window",
    ),
    Mutant(
        "a window of length buckets is longer than an epoch",
        BUCKETS,
        "max(1, min(MAX_STEPS, source.num_examples // rows))",
        "MAX_STEPS",
        TEST,
        "epoch",
    ),
    Mutant(
        "a phase with shorter rows has the length buckets of the longer ones",
        "research/config/phases.py",
        "if n < copy.data.length]",
        "if n]",
        "tests/config/test_phases.py",
        "length_buckets",
    ),
    Mutant(
        "the second separator of a pair is not counted in its length",
        "research/objectives/tasks/sequence_classification.py",
        "length + np.where(first_length < length, two, one)",
        "length + one",
        TEST,
        "window",
    ),
    Mutant(
        "a row of a mixture has the bucket of a row of the first corpus",
        "research/data/source/text_source.py",
        "return self._first[corpus] + row\n",
        "return row\n",
        TEST,
        "mixture",
    ),
    Mutant(
        "with length buckets each host loads the whole batch",
        "research/data/pipeline.py",
        "return [self.batch(step, rows)]",
        "return [self.batch(step)]",
        TEST,
        "hosts",
    ),
    Mutant(
        "predictions stay in the order of their lengths",
        "research/evaluation/evaluate.py",
        "for b in batches])[back]",
        "for b in batches])[: len(back)]",
        TEST_PREDICTIONS,
        "length_of_a_batch",
    ),
    Mutant(
        "each length of a run's batches costs as if all its steps had it",
        "research/program/compiled_phases.py",
        "(numbers[length], cost)",
        "(stop - start, cost)",
        "tests/program/test_compiled_phases.py",
        "several_lengths",
    ),
    Mutant(
        "a metric that is not defined on a part of the items ends the run",
        "research/evaluation/statistics.py",
        "if math.isnan(size):",
        "if False:",
        "tests/evaluation/test_statistics.py",
        "not_defined",
    ),
]
