"""Losses and mix-ups of files, of runs and of machines, which went unseen."""

from tests.proofs.mutation import Mutant

WORKDIR = "research/run/workdir.py"
TEST_WORKDIR = "tests/run/test_workdir.py"
TEST_TABLES = "tests/launch/reports/test_tables.py"
DETECTOR = "research/distributed/failure_detector.py"
CLUSTER = "research/distributed/cluster.py"
TEST_CLUSTER = "tests/distributed/test_cluster.py"
TEST_COMMAND = "tests/launch/test_train_command.py"
TEST_LOCAL = "tests/launch/backends/test_local.py"
TEST_DETECTOR = "tests/distributed/test_failure_detector.py"

MUTANTS = [
    Mutant(
        "two runs write one workdir",
        WORKDIR,
        "if jax.process_index() != 0:",
        "if jax.process_index() == 0:",
        TEST_WORKDIR,
        "second_run_is_refused",
    ),
    Mutant(
        "the digest of a config lacks the seed",
        WORKDIR,
        "return _digest(fixed_keys(config))",
        'return _digest({**fixed_keys(config), "seed": 0})',
        TEST_WORKDIR,
        "digest_leaves_out",
    ),
    Mutant(
        "a refused start leaves its own config.json",
        "research/train.py",
        "    provenance.write_provenance(workdir, config_dict, origin)\n",
        "    provenance.write_provenance(workdir, config_dict, origin)\n"
        '    write_json(workdir / "config.json", config_dict)\n',
        "tests/test_train.py",
        "resumed_equals",
    ),
    Mutant(
        "tokens are counted anew where metrics.jsonl is lost",
        "research/train.py",
        'facts["seconds"], facts["tokens_scored"]',
        'facts["seconds"], 0.0',
        "tests/test_train.py",
        "resumes_on_other_devices or resumed_equals",
    ),
    Mutant(
        "a damaged line hides all lines after it",
        "research/run/json_files.py",
        "        except ValueError as error:  # also bytes that are not UTF-8\n"
        "            raise",
        "        except ValueError as error:\n            break\n            raise",
        "tests/run/test_metric_writer.py",
        "damaged_line",
    ),
    Mutant(
        "a renamed checkpoint is restored as the step of its name",
        "research/checkpoints/checkpoint.py",
        'if (own := restored.facts["step"]) != step:',
        "if False:",
        "tests/checkpoints/test_checkpoint.py",
        "renamed_checkpoint",
    ),
    Mutant(
        "a result that was edited by hand reaches the table",
        WORKDIR,
        'if result.pop("digest", None) != _digest(result):',
        'if not result.pop("digest", None):',
        TEST_TABLES,
        "not_its_runs",
    ),
    Mutant(
        "another trial's result reaches the table",
        "launch/reports/cells.py",
        "                    trial.check_result()\n",
        "                    trial.result  # noqa: B018\n",
        TEST_TABLES,
        "not_its_runs",
    ),
    Mutant(
        "the id of a trial leads out of the workdir",
        "launch/sweeps/sweep_plan.py",
        'if _trial_id(row["config"]) != row["id"]:',
        "if False:",
        TEST_TABLES,
        "damaged_plan",
    ),
    Mutant(
        "a shell runs what stands in an override",
        "launch/backends/sky.py",
        'line = " ".join(map(shlex.quote, words))',
        'line = " ".join(words)',
        "tests/launch/backends/test_rendered.py",
        "runs_nothing",
    ),
    Mutant(
        "a folder beside the mount counts as mounted",
        "launch/backends/gke.py",
        "path.is_relative_to(self.mount)",
        "str(path).startswith(self.mount)",
        "tests/launch/backends/test_rendered.py",
        "pod_can_read",
    ),
    Mutant(
        "a lost process is never missed",
        DETECTOR,
        "while len(alive) == self.num_processes and alive == self._started:",
        "while True:",
        TEST_DETECTOR,
        "killed_the_others_exit[1]",
    ),
    Mutant(
        "process 0 exits before the others know why",
        DETECTOR,
        "thread.join(NEWS_TIMEOUT_S if self.index == 0 else POLL_INTERVAL_S)",
        "thread.join(0.0 if self.index == 0 else POLL_INTERVAL_S)",
        TEST_DETECTOR,
        "error_ends_all",
    ),
    Mutant(
        "a process that is lost while JAX connects is the user's mistake",
        CLUSTER,
        "if distributed.global_state.client:",
        "if False:",
        TEST_CLUSTER,
        "is_no_mistake",
    ),
    Mutant(
        "the coordinator listens on all interfaces",
        CLUSTER,
        "is_local and host != ",
        "True or host != ",
        TEST_CLUSTER,
        "its_own_address",
    ),
    Mutant(
        "a signal while a command imports ends it by other codes, or a traceback",
        "launch/__init__.py",
        'if sys.argv[0] == "-m":',
        "if False:",
        TEST_COMMAND,
        "while_a_command_starts",
    ),
    Mutant(
        "Ctrl-C three times prints a traceback",
        "launch/signals.py",
        "    _at_once = True\n    raise KeyboardInterrupt",
        "    raise KeyboardInterrupt",
        "tests/launch/test_signals.py",
        "ends_the_process_with_one_line",
    ),
    Mutant(
        "Ctrl-C is lost in a callback of the garbage collector",
        "launch/signals.py",
        "        signal.setitimer(signal.ITIMER_REAL, RETRY_S)\n        return\n",
        "        pass\n",
        "tests/launch/test_signals.py",
        "ends_the_process_with_one_line",
    ),
    Mutant(
        "stop signals another process with the recorded id",
        "launch/backends/local.py",
        "if started != process.process_start:",
        "if False:",
        TEST_LOCAL,
        "only_the_same_process",
    ),
    Mutant(
        "stop signals a process of this machine for one of another",
        "launch/backends/local.py",
        "if process.host != host:",
        "if False:",
        TEST_LOCAL,
        "only_the_same_process",
    ),
]
