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
]
