"""Mutants of XNLG: noises, languages, where stacks start."""

from tests.proofs.mutation import Mutant

XNLG = "research/objectives/xnlg.py"
RESTORE = "research/checkpoints/partial_restore.py"
TEST = "tests/objectives/test_xnlg.py"

MUTANTS = [
    Mutant(
        "pieces are moved by up to twice the distance",
        XNLG,
        "moved = self.shuffle_distance * counter_rng",
        "moved = 2 * self.shuffle_distance * counter_rng",
        TEST,
        "moved_by",
    ),
    Mutant(
        "all pieces of a text may be dropped",
        XNLG,
        "kept |= lost[:, None] & (position == one[:, None])",
        "pass",
        TEST,
        "dropped_but",
    ),
    Mutant(
        "pairs are noised, too",
        XNLG,
        "sides[0], noised, key, vocab",
        "sides[0], noised | True, key, vocab",
        TEST,
        "without_noise",
    ),
    Mutant(
        "pairs are translated in one direction alone",
        XNLG,
        'counter_rng.uniform(key, "order", 1)[:, 0] < 0.5',
        'counter_rng.uniform(key, "order", 1)[:, 0] < 0.0',
        TEST,
        "both_directions",
    ),
    Mutant(
        "a text is written in the language that it is read in",
        XNLG,
        "return made._replace(token_type=int(written))",
        "return made._replace(token_type=int(read))",
        TEST,
        "first_corpus",
    ),
    Mutant(
        "text in one language counts as much as translations",
        XNLG,
        '"dae": (noised, self.denoising)',
        '"dae": (noised, 1.0)',
        TEST,
        "term_of_its_own",
    ),
    Mutant(
        "a stack starts from the last layers of the one that was trained",
        RESTORE,
        "there[:count] if is_array",
        "there[-count:] if is_array",
        TEST,
        "both_stacks",
    ),
]
