"""Mutants of cross-lingual language modelling, and of masking by probability."""

from tests.proofs.mutation import Mutant

MUTANTS = [
    Mutant(
        "a scored text is read behind bos, which XLM does not have",
        "research/objectives/tlm.py",
        'rows.arrays["token"][:, 0] = vocab.eos_id',
        'rows.arrays["token"][:, 0] = vocab.bos_id',
        "tests/objectives/test_tlm.py",
        "read_as_one_side",
    ),
    Mutant(
        "separators count as tokens that may be chosen",
        "research/objectives/corruption/masking.py",
        "return np.where(vocab.is_special, 0, vocab.token_count).astype(np.int64)",
        "return vocab.token_count.astype(np.int64)",
        "tests/objectives/test_tlm.py",
        "rare_tokens_are_masked",
    ),
    Mutant(
        "of text in one language too, one sentence is read and not a stream",
        "research/objectives/tlm.py",
        'return TextSpec("document", length, streams=streams)',
        'return TextSpec("document", length)',
        "tests/objectives/test_tlm.py",
        "one_language_is_a_stream",
    ),
    Mutant(
        "the first token of a stream may be chosen",
        "research/objectives/tlm.py",
        "candidate[:, 0] = False",
        "candidate[:, 0] &= True",
        "tests/objectives/test_tlm.py",
        "read_as_it_is",
    ),
    Mutant(
        "the causal language model restarts positions with the second side",
        "research/objectives/tlm.py",
        "group = input_format.causal_input(text.token, text.length)",
        "group = input_format.causal_input(text.token, text.length)\n"
        '            group["position"] -= second_begin[:, None] * text.token_type',
        "tests/objectives/test_tlm.py",
        "next_tokens_are_predicted",
    ),
    Mutant(
        "every row has the same number of masked units",
        "research/objectives/corruption/masking.py",
        'counter_rng.uniform(key, "choose", length) < rate',
        'counter_rng.permutation(key, "choose", length) < rate * length',
        "tests/objectives/corruption/test_masking.py",
        "chosen_by_themselves",
    ),
    Mutant(
        "a token of a unit is chosen without the others",
        "research/objectives/corruption/masking.py",
        "chosen[candidate] = np.repeat(is_hit, size)",
        "chosen.reshape(-1)[first] = is_hit",
        "tests/objectives/corruption/test_masking.py",
        "chosen_by_themselves",
    ),
    Mutant(
        "pairs crowd out text in one language: one exponent over both kinds",
        "research/data/loading/build.py",
        "sampling_rates(num_tokens, alpha, groups)",
        "sampling_rates(num_tokens, alpha)",
        "tests/data/loading/test_build.py",
        "kinds_of_text",
    ),
    Mutant(
        "frequent tokens are masked more often, not less",
        "research/objectives/tlm.py",
        "np.maximum(counts, 1.0) ** -alpha",
        "np.maximum(counts, 1.0) ** alpha",
        "tests/objectives/test_tlm.py",
        "rare_tokens_are_masked",
    ),
    Mutant(
        "positions do not restart in the translation",
        "research/objectives/tlm.py",
        'group["position"] -= shift',
        'group["position"] -= 0 * shift',
        "tests/objectives/test_tlm.py",
        "positions_restart",
    ),
]
