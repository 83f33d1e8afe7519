"""Keys, flags, jobs and data of a sweep that do not reach where its user has them."""

from tests.proofs.mutation import Mutant

PLAN = "launch/sweeps/sweep_plan.py"
SWEEP = "launch/sweep.py"
TEST_ACTIONS = "tests/launch/test_sweep_actions.py"
TEST_PLAN = "tests/launch/sweeps/test_sweep_plan.py"

MUTANTS = [
    Mutant(
        "rows made like another one, and fine-tunings, do not have its shared keys",
        "launch/sweeps/shared_keys.py",
        "keys = {**_SHARED.get(), **own}",
        "keys = {**own}",
        TEST_PLAN,
        "that_of_all_rows",
    ),
    Mutant(
        "an untrained network has a shared key that its row sets to the default",
        "launch/sweeps/finetuning.py",
        "or is_shared(key))",
        ")",
        TEST_PLAN,
        "some_rows_set",
    ),
    Mutant(
        "a shared key reaches some rows of a table alone",
        PLAN,
        "if taken and rows:",
        "if False:",
        TEST_PLAN,
        "some_rows_set",
    ),
    Mutant(
        "a shared key that no pretraining takes is not told",
        PLAN,
        "if setting and not taken:",
        "if False:",
        TEST_PLAN,
        "every_row_sets",
    ),
    Mutant(
        "a shared key replaces the network that a trial starts from",
        PLAN,
        "and (k in shared or default.get(k) != v)",
        "and k not in shared and default.get(k) != v",
        TEST_PLAN,
        "before_a_shared_one",
    ),
    Mutant(
        "a budget is of a trial without its shared keys",
        "launch/sweeps/budgets.py",
        "config.load_config(experiment, with_shared(keys))",
        """config.load_config(
        experiment, {k: v for k, v in keys.items() if not isinstance(v, tuple)}
    )""",
        "tests/launch/sweeps/test_budgets.py",
        "with_their_shared_keys",
    ),
    Mutant(
        "resume --trial drops the handles of jobs that still run",
        "launch/backends/scheduler.py",
        "write_json(self.workdir / JOBS_FILE, self.others | handles)",
        "write_json(self.workdir / JOBS_FILE, handles)",
        TEST_ACTIONS,
        "still_run_are_found",
    ),
    Mutant(
        "a job that another driver started and that has ended is kept as running",
        "launch/backends/scheduler.py",
        "self.others = {k: v for k, v in self.others.items() if v in alive}",
        "",
        TEST_ACTIONS,
        "during_a_resume",
    ),
    Mutant(
        "a flag that an action does not read is ignored",
        SWEEP,
        'if action != "run" and flag not in (read',
        "if False and flag not in (read",
        TEST_ACTIONS,
        "user_error_is_one_line",
    ),
    Mutant(
        "--lines beside a run is ignored",
        SWEEP,
        'if action == "run" and flag == "--lines":',
        "if False:",
        TEST_ACTIONS,
        "user_error_is_one_line",
    ),
    Mutant(
        "resume --dry_run starts jobs",
        SWEEP,
        "            if args.dry_run:\n",
        "            if False:\n",
        TEST_ACTIONS,
        "resume_with_dry_run",
    ),
    Mutant(
        "resume has the sweep's --parallel, whatever it is given",
        SWEEP,
        'header |= {k: v for k, v in limits.items() if f"--{k}" in args.given}',
        "pass",
        TEST_ACTIONS,
        "other_limits",
    ),
    Mutant(
        "resume has the default of --preemptions in place of the sweep's",
        SWEEP,
        ' if f"--{k}" in args.given}',
        "}",
        TEST_ACTIONS,
        "other_limits",
    ),
    Mutant(
        "run --trial runs all trials",
        SWEEP,
        '{"round": last_round + 1}, trials, workdir, args.trial)',
        '{"round": last_round + 1}, trials, workdir, "")',
        TEST_ACTIONS,
        "run_runs_the_trials",
    ),
    Mutant(
        "runs of one cell that are tested on different data are not marked",
        "launch/reports/cells.py",
        "any(len(own) > 1 for own in known)",
        "False",
        "tests/launch/reports/test_formats.py",
        "tested_on_different_data",
    ),
    Mutant(
        "a result that does not say on what it was tested is one on other data",
        "launch/reports/cells.py",
        "(set(filter(None, own)) for own",
        "(set(own) for own",
        "tests/launch/reports/test_formats.py",
        "tested_on_different_data",
    ),
    Mutant(
        "a claim's result does not say on what its runs were tested",
        "launch/claims.py",
        "if tested else {}",
        "if False else {}",
        "tests/launch/reports/test_ledger.py",
        "were_tested",
    ),
]
