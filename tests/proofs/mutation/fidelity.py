"""Values of published systems that were mixed up."""

from tests.proofs.mutation import Mutant

TEST = "tests/fidelity/test_facts.py"

MUTANTS = [
    Mutant(
        "RoBERTa's large model has base's learning rate and warm-up",
        "experiments/roberta.py",
        '(4e-4, 30_000) if size == "large" else (6e-4, 24_000)',
        '(4e-4, 30_000) if size == "base" else (6e-4, 24_000)',
        TEST,
        "rows_hold and roberta",
    ),
    Mutant(
        "ELECTRA's large model masks 15 %, as its small ones",
        "experiments/electra.py",
        '"large": (0.25, 1 / 4',
        '"large": (0.15, 1 / 4',
        TEST,
        "rows_hold and electra",
    ),
    Mutant(
        "a departure that is none any more stays declared",
        "tests/fidelity/table.py",
        'if kind != "equal" and same and not',
        'if kind == "open" and same and not',
        TEST,
        "does_not_hold",
    ),
    Mutant(
        "a value that an experiment sets needs no fact",
        "tests/fidelity/table.py",
        "for key in sorted(_set_keys(config, size)):",
        "for key in ():",
        TEST,
        "does_not_hold",
    ),
]
