"""Tasks of seqio's and TFDS's registries: their examples, and their own metrics."""

from tests.proofs.mutation import Mutant

METRICS = "research/data/seqio/task_metrics.py"
TEST_METRICS = "tests/data/seqio/test_task_metrics.py"
SOURCE = "research/data/seqio/task_source.py"
TEST_SOURCE = "tests/data/seqio/test_task_source.py"
TFDS = "research/data/corpora/tfds_corpus.py"
TEST_TFDS = "tests/data/corpora/test_tfds_corpus.py"

MUTANTS = [
    Mutant(
        "predictions are not scored where seqio reads the text",
        "research/data/pipeline.py",
        "documents=text.documents,",
        'documents=text.documents if data.reader == "native" else None,',
        "tests/data/seqio/test_register_tasks.py",
        "predictions_are_scored",
    ),
    Mutant(
        "data.valid beside a seqio task is not read, and nothing says so",
        "research/data/pipeline.py",
        "        _refuse_named_splits(data)\n        objective.check_corpora(1)\n",
        "        objective.check_corpora(1)\n",
        "tests/data/seqio/test_task_source.py",
        "split_in_files",
    ),
    Mutant(
        "a task that raises is told once a run has compiled",
        "research/data/seqio/open_tasks.py",
        "        source.check_first()\n",
        "        pass\n",
        "tests/data/seqio/test_task_errors.py",
        "raises or without_examples",
    ),
    Mutant(
        "what a task raises has the line of a library",
        "research/data/seqio/task_errors.py",
        "(users or places)[-1]",
        "places[-1]",
        "tests/data/seqio/test_task_errors.py",
        "has_its_line",
    ),
    Mutant(
        "evaluations of a user's task depend on the run's seed",
        SOURCE,
        '"seed": EVALUATION_SEED, "num_epochs": 1}',
        '"seed": self._seed, "num_epochs": 1}',
        TEST_SOURCE,
        "whatever_the_runs_seed",
    ),
    Mutant(
        "a task that cannot be shuffled stops the shuffling of its mixture",
        SOURCE,
        "        if 0 < len(self._fixed_tasks) < len(self._tasks):\n",
        "        if False:\n",
        TEST_SOURCE,
        "cannot_be_shuffled",
    ),
    Mutant(
        "nothing says that a task cannot be shuffled",
        SOURCE,
        "        self._warn(bool(fixed), what)\n",
        "        pass\n",
        TEST_SOURCE,
        "cannot_be_shuffled",
    ),
    Mutant(
        "an input or target of a seqio task ends with two eos",
        "research/data/seqio/task_examples.py",
        "    if eos_id is not None and token.shape[1]:\n",
        "    if False:\n",
        TEST_METRICS,
        "rows_are_those_of_t5",
    ),
    Mutant(
        "nothing is written for a seqio task, so its metrics are left out",
        "research/data/pipeline.py",
        "return self.documents is not None or self.task is not None",
        "return self.documents is not None",
        TEST_METRICS,
        "metrics_of_a_mixture",
    ),
    Mutant(
        "a task's targets are postprocessed as predictions",
        METRICS,
        "(golds, True), (predictions, False)",
        "(golds, False), (predictions, False)",
        TEST_METRICS,
        "metrics_of_a_mixture",
    ),
    Mutant(
        "each task of a mixture is scored on the texts of the first",
        METRICS,
        "rows, texts, metrics = iter(written), [], {}",
        "rows, texts, metrics = written, [], {}",
        TEST_METRICS,
        "metrics_of_a_mixture",
    ),
    Mutant(
        "a metric of likelihoods is left out unsaid",
        METRICS,
        "        if names:\n",
        "        if False:\n",
        TEST_METRICS,
        "cannot_be_computed",
    ),
    Mutant(
        "a data set's own validation split is ignored if it has two",
        TFDS,
        '("validation", "validation_matched")',
        '("validation",)',
        TEST_TFDS,
        "answers_at_their_characters",
    ),
    Mutant(
        "data.valid=tfds:NAME reads the data set's train split",
        TFDS,
        "own.get(split, split), where",
        '"", where',
        TEST_TFDS,
        "is_all_of_one_split",
    ),
    Mutant(
        "a split in a data set's name is read in place of none",
        TFDS,
        "own = {} if chosen else own",
        "own = {} if split else own",
        TEST_TFDS,
        "in_place_of_the_data_sets_own",
    ),
    Mutant(
        "a split of a data set is divided once more by hash",
        TFDS,
        "held_out is None or split in own",
        "split in own",
        TEST_TFDS,
        "is_all_of_one_split",
    ),
    Mutant(
        "two splits of a data set share a cache",
        TFDS,
        "named += [SPLIT + whole] if chosen else []",
        "named += []",
        TEST_TFDS,
        "in_place_of_the_data_sets_own",
    ),
    Mutant(
        "data.valid=tfds:NAME is a file",
        "research/data/loading/build.py",
        "if name.startswith(TFDS_PREFIX):",
        "if False:",
        "tests/data/loading/test_splits.py",
        "of_tfds_and_another_a_file",
    ),
]
