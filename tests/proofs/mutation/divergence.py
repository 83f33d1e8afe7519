"""Runs that diverged or were edited, taken for what they are not."""

from tests.proofs.mutation import Mutant

TRAIN = "research/train.py"
CELLS = "launch/reports/cells.py"
TRIAL = "launch/sweeps/trial.py"
FOLDER = "research/interop/huggingface/folder.py"
RESTORE = "research/interop/huggingface/restore.py"
TEST_TRAIN = "tests/test_train.py"
TEST_RESTORED = "tests/program/test_restored.py"
TEST_TABLES = "tests/launch/reports/test_tables.py"
TEST_SETTINGS = "tests/launch/reports/test_settings.py"
TEST_FOLDER = "tests/interop/huggingface/test_folder.py"

MUTANTS = [
    Mutant(
        "parameters that are not finite are saved",
        TRAIN,
        "if not jax.device_get(self.is_finite(self.state.params)):",
        "if False:",
        TEST_TRAIN,
        "neither_logged_nor_saved",
    ),
    Mutant(
        "an evaluation that is not finite is a result",
        "research/evaluation/evaluations.py",
        'if name.endswith("/loss") and not math.isfinite(value):',
        "if False:",
        TEST_TRAIN,
        "neither_logged_nor_saved",
    ),
    Mutant(
        "an edited config opens another network",
        "research/program/restored.py",
        'facts["config"] != config_digest(config):',
        'facts["config"] == "":',
        TEST_RESTORED,
        "edited",
    ),
    Mutant(
        "parameters that are not finite are opened",
        "research/checkpoints/checkpoint.py",
        "if not np.isfinite(leaf).all():",
        "if not np.isfinite(leaf).any():",
        TEST_RESTORED,
        "not_finite",
    ),
    Mutant(
        "a diverged run is missing for ever",
        TRIAL,
        "own = any(attempt.root_cause.exit_code == NON_FINITE for attempt in last)",
        "own = False",
        TEST_TABLES,
        "diverged",
    ),
    Mutant(
        "what starts from a diverged run is missing for ever",
        TRIAL,
        "return own or any(parent.diverged for parent in self.parents.values())",
        "return own",
        TEST_TABLES,
        "diverged",
    ),
    Mutant(
        "a metric that is not a number differs from itself",
        TRIAL,
        "return one == other or (one != one and other != other)",
        "return one == other",
        TEST_TABLES,
        "not_a_number",
    ),
    Mutant(
        "a cell is the mean of the runs that have not diverged",
        CELLS,
        "    if any(trial.diverged for trial in picked):\n        return None\n",
        "    picked = [trial for trial in picked if not trial.diverged]\n",
        TEST_TABLES,
        "diverged",
    ),
    Mutant(
        "a setting that has diverged is as good as others",
        CELLS,
        "            return -math.inf\n",
        "            return math.inf\n",
        TEST_SETTINGS,
        "diverged",
    ),
    Mutant(
        "an evaluation with other values overwrites the run's own",
        "launch/commands/evaluate.py",
        "    name += changes_suffix(workdir, config)\n",
        "",
        "tests/launch/commands/test_evaluate.py",
        "folder_of_its_own",
    ),
    Mutant(
        "weights of whole numbers are read as parameters",
        FOLDER,
        "if dtype not in DTYPES:",
        "if not dtype:",
        TEST_FOLDER,
        "no_numbers",
    ),
    Mutant(
        "what a config of Hugging Face means has no range",
        RESTORE,
        "        _check_options(options)\n",
        "",
        TEST_FOLDER,
        "no_option_means",
    ),
    Mutant(
        "an interval of right and wrong is a jackknife's",
        "research/evaluation/predictions.py",
        "        if declared[name].mean_of_scores\n",
        "        if False\n",
        "tests/evaluation/test_predictions.py",
        "wilsons",
    ),
    Mutant(
        "code in no commit is told by its commit alone",
        "launch/commands/diff.py",
        '    if "commit" not in differ:\n',
        '    if "commit" in differ:\n',
        "tests/launch/commands/test_diff.py",
        "behind_an_equal_key",
    ),
]
