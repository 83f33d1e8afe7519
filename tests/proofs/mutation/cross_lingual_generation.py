"""Mutants of XNLG: noises, languages, where stacks start."""

from tests.proofs.mutation import Mutant

XNLG = "research/objectives/dae/xnlg.py"
SEQUENCES = "research/objectives/tasks/sequence_to_sequence.py"
PROMPT = "research/objectives/layout/prompt.py"
GENERATE = "research/generation/generate.py"
GUARDS = "tests/fidelity/test_facts.py"
SEQUENCES_TEST = "tests/objectives/test_sequence_to_sequence.py"
GENERATE_TEST = "tests/generation/test_generate.py"
RESTORE = "research/interop/partial_restore.py"
TEST = "tests/objectives/test_xnlg.py"

MUTANTS = [
    Mutant(
        "a second side that is cut is written to its cut",
        XNLG,
        "(size > 0).all(axis=1) & ~is_cut",
        "(size > 0).all(axis=1)",
        TEST,
        "long_side",
    ),
    Mutant(
        "a long first side takes the room of the second",
        XNLG,
        "(4 if has_pairs else 1)",
        "(2 if has_pairs else 1)",
        TEST,
        "long_side",
    ),
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
        PROMPT,
        "encoder=encoder, token_type=written",
        "encoder=encoder, token_type=read",
        TEST,
        "first_corpus",
    ),
    Mutant(
        "an input and its target change languages",
        SEQUENCES,
        '("encoder_", "decoder_"), self._pair',
        '("decoder_", "encoder_"), self._pair',
        SEQUENCES_TEST,
        "types_of_their_languages",
    ),
    Mutant(
        "a target's languages are not among what a network has to have",
        SEQUENCES,
        '{"token_types": max(self._pair) + 1, "languages": True}',
        '{"token_types": max(self._pair), "languages": True}',
        SEQUENCES_TEST,
        "types_of_their_languages",
    ),
    Mutant(
        "a network without embeddings of languages ignores them",
        "research/networks/__init__.py",
        'if needs.languages and not getattr(network, "token_types", 0):',
        "if False:",
        "tests/networks/test_needs.py",
        "languages",
    ),
    Mutant(
        "the language that is asked for is not written",
        GENERATE,
        "prompt = _in_languages(prompt, options.languages, network.options)",
        "_in_languages(prompt, options.languages, network.options)",
        GENERATE_TEST,
        "asked_for",
    ),
    Mutant(
        "a language that the network lacks is taken for the last one",
        GENERATE,
        "if max(pair) >= count:",
        "if not count:",
        GENERATE_TEST,
        "asked_for",
    ),
    Mutant(
        "the gradient of what is frozen counts in the norm that is clipped",
        "research/optimize/optimizer.py",
        "optimizer = optax.chain(freeze, optimizer)",
        "optimizer = optax.chain(optimizer, freeze)",
        GUARDS,
        "frozen",
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
