"""Scores of texts: what is hidden, how it is summed, ties and normalisation."""

from tests.proofs.mutation import Mutant

SCORING = "research/objectives/corruption/scoring.py"
SCORES = "research/evaluation/sentence_scores.py"
TABLES = "research/evaluation/score_tables.py"
SCORED = "launch/reports/scored_columns.py"
TEST_SCORING = "tests/objectives/corruption/test_scoring.py"
TEST_SCORES = "tests/evaluation/test_sentence_scores.py"
TEST_TABLES = "tests/evaluation/test_score_tables.py"

MUTANTS = [
    Mutant(
        "of several scores of a run a table takes the one whose folder sorts last",
        SCORED,
        "    if others:\n",
        "    first = [first, *others][-1]\n    if False:\n",
        "tests/test_tables.py",
        "one_method",
    ),
    Mutant(
        "a column has scores of several files",
        "launch/reports/cells.py",
        "if own.files != first.scoring.files:",
        "if False:",
        "tests/test_tables.py",
        "one_method",
    ),
    Mutant(
        "a row has scores by several methods",
        "launch/reports/cells.py",
        "if own.method != first.scoring.method:",
        "if False:",
        "tests/test_tables.py",
        "one_method",
    ),
    Mutant(
        "scores of one step are taken for those of the last one",
        "launch/score.py",
        "kept = args.step or trial.opened_step",
        "kept = args.step or 2",
        "tests/launch/test_score.py",
        "another_step",
    ),
    Mutant(
        "a run whose last checkpoint is missing is scored again each time",
        "launch/score.py",
        'if kept_step and exists(folder / "scores.jsonl"):',
        "if False:",
        "tests/launch/test_score.py",
        "another_step",
    ),
    Mutant(
        "a table takes scores of any step",
        SCORED,
        "-(.*)-{trial.opened_step}-",
        r"-(.*)-\d+-",
        "tests/test_tables.py",
        "opens_the_run",
    ),
    Mutant(
        "a run with a best step is scored at its last",
        "launch/sweeps/trial.py",
        'return result.get("best_step") or result["steps"]',
        'return result["steps"]',
        "tests/test_tables.py",
        "best_step_opens",
    ),
    Mutant(
        "an interval of an area has draws of one label alone, which have no area",
        TABLES,
        "num_draws=NUM_DRAWS, rng=rng, strata=gold",
        "num_draws=NUM_DRAWS, rng=rng, strata=None",
        TEST_TABLES,
        "rare_label",
    ),
    Mutant(
        "an area of one text of a label has an interval",
        TABLES,
        "if np.bincount(gold).min() < 2:",
        "if False:",
        TEST_TABLES,
        "rare_label",
    ),
    Mutant(
        "of equal scores the first wins (the public BabyLM pipeline)",
        TABLES,
        "return tied[gold] / sum(tied)",
        "return float(tied.index(True) == gold)",
        TEST_TABLES,
        "equal_scores_give_chance",
    ),
    Mutant(
        "the later tokens of a word give its first away",
        SCORING,
        "same & inside & (index >= first[:, None])",
        "same & inside & (index == first[:, None])",
        TEST_SCORING,
        "rest_of_their_words",
    ),
    Mutant(
        "losses of positions are added in float32",
        SCORES,
        "array.astype(np.float64) * arrays[name]",
        "array * arrays[name]",
        TEST_SCORES,
        "added_in_float64",
    ),
    Mutant(
        "the score a token is a score a byte",
        SCORES,
        "self.log_prob / self.num_tokens",
        "self.log_prob / self.num_bytes",
        TEST_TABLES,
        "length_alone",
    ),
    Mutant(
        "a score has the z-loss and the smoothing of training",
        "research/objectives/dae.py",
        "return self.with_fields(label_smoothing=0.0, z_loss=0.0)",
        "return self",
        TEST_SCORING,
        "log_p_alone",
    ),
    Mutant(
        "a token that is predicted one position before it is scored at its own",
        "research/objectives/mlm.py",
        'rows.arrays["scored"] -= self.predict_at == "previous"',
        'rows.arrays["scored"] -= 0',
        TEST_SCORES,
        "pseudo_log_likelihood",
    ),
    Mutant(
        "left to right, a mask sees what follows it",
        "research/objectives/unilm.py",
        "if mode == FORWARD:\n            arrays",
        "if False:\n            arrays",
        TEST_SCORES,
        "likelihoods_are_those",
    ),
    Mutant(
        "scores by sampled negatives are taken for probabilities",
        "research/objectives/infoword.py",
        "if self.negatives:\n            scoring",
        "if False:\n            scoring",
        TEST_SCORES,
        "no_score",
    ),
    Mutant(
        "the encoder of mass reads the word that its decoder writes",
        "research/objectives/mass.py",
        "read[row, 1 + at] = vocab.mask_id",
        "pass",
        TEST_SCORING,
        "decoder_of_mass",
    ),
    Mutant(
        "a permuted token sees the specials, and so how long the text is",
        "research/objectives/plm.py",
        "np.where(chosen | special, order, -1)",
        "np.where(chosen, order, -1)",
        TEST_SCORING,
        "orders_of_plm",
    ),
]
