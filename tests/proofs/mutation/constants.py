"""Constants: read, verified, whole in each micro-batch, and never saved."""

from tests.proofs.mutation import Mutant

CONSTANTS = "research/program/constants.py"
WORKDIR = "research/record/workdir.py"
STEP = "research/program/step.py"

TEST = "tests/program/test_constants.py"

MUTANTS = [
    Mutant(
        "vectors of a fastText run are rows of its table, without n-grams",
        CONSTANTS,
        "    if rows is not None:\n",
        "    if False:\n",
        TEST,
        "run_are_those",
    ),
    Mutant(
        "vectors of a GloVe run are one of its two tables",
        CONSTANTS,
        'return found if table is None else {"token/embedding": table}',
        "return found",
        TEST,
        "run_are_those",
    ),
    Mutant(
        "micro-batches split the constants as if they had rows",
        STEP,
        "rows = {name: value for name, value in batch.items() if name != CONSTANTS}",
        "rows = dict(batch)",
        TEST,
        "meshes_micro_batches_and_restarts",
    ),
    Mutant(
        "all constants are replicated",
        CONSTANTS,
        "own = sharding.parameter_sharding(names, leaf.shape, mesh)",
        "own = sharding.replicated(mesh)",
        TEST,
        "teacher_is_sharded",
    ),
    Mutant(
        "the checksum does not depend on the values",
        CONSTANTS,
        "        total.update(np.ascontiguousarray(leaf).tobytes())\n",
        "",
        TEST,
        "arrays_of_a_file",
    ),
    Mutant(
        "the checksum depends on arrays that are not read",
        CONSTANTS,
        '"checksum": _checksum(host)}',
        '"checksum": _checksum(dict(found))}',
        TEST,
        "arrays_of_a_file",
    ),
    Mutant(
        "a run goes on with another teacher in the place of its own",
        WORKDIR,
        '    check_same_constants(workdir, old, new["constants"])\n',
        "",
        TEST,
        "another_teacher_in_its_place",
    ),
    Mutant(
        "an evaluation reads another teacher in the place of the run's",
        "launch/commands/evaluate.py",
        "    check_same_constants(workdir, facts, program.constants.origins)\n",
        "",
        TEST,
        "another_teacher_in_its_place",
    ),
    Mutant(
        "scores read another teacher in the place of the run's",
        "launch/commands/score.py",
        "    check_same_constants(workdir, restored.facts, scorer.constants.origins)\n",
        "",
        TEST,
        "another_teacher_in_its_place",
    ),
    Mutant(
        "the source is read where the program is built",
        CONSTANTS,
        "        self.abstract = {CONSTANTS: trees} if trees else {}\n",
        "        self.abstract = {CONSTANTS: trees} if trees else {}\n"
        "        self.origins\n",
        TEST,
        "compiled_and_timed_without_the_source",
    ),
    Mutant(
        "each phase of a run reads the constants again",
        "research/program/compiled_phases.py",
        "        built = built._replace(constants=program.constants)  # read once\n",
        "",
        TEST,
        "phases_share_constants",
    ),
    Mutant(
        "each part of a joint objective has the constants of all parts",
        "research/objectives/combined/joint.py",
        '            if own.startswith(f"{name}.")\n',
        "",
        TEST,
        "composites_give_a_part",
    ),
]
