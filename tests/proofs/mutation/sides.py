"""Two sides: what an encoder reads of a noisy text, what a decoder reads and writes."""

from tests.proofs.mutation import Mutant

SIDES = "research/objectives/inputs/seq2seq.py"
SPANS = "research/objectives/corruption/spans.py"
DAE = "research/objectives/dae.py"
REWRITE = "research/objectives/corruption/bart_noise.py"
BART = "research/objectives/bart.py"
MASS = "research/objectives/mass.py"
MIX = "research/objectives/mix.py"

TEST_DAE = "tests/objectives/test_dae.py"
TEST_VARIANTS = "tests/objectives/test_dae_variants.py"
TEST_REWRITE = "tests/objectives/corruption/test_bart_noise.py"
TEST_BART = "tests/objectives/test_bart.py"
TEST_MASS = "tests/objectives/test_mass.py"
TEST_MIX = "tests/objectives/test_mix.py"

MUTANTS = [
    Mutant(
        "the decoder reads its targets: a loss of nearly zero",
        SIDES,
        "before[:, 1:] = token[:, :-1]",
        "before[:] = token",
        TEST_DAE,
        "one_place_late",
        pitfall=15,
    ),
    Mutant(
        "the decoder of a span reads its targets",
        MASS,
        "read = np.take_along_axis(token, before, axis=1)",
        "read = np.take_along_axis(token, before + 1, axis=1)",
        TEST_MASS,
        "every_span_is_aligned",
        pitfall=15,
    ),
    Mutant(
        "the mask rounds in single precision, the table of lengths in double",
        SPANS,
        "hidden, spans = counts(num_raw, rate, span)",
        "hidden, spans = counts(num_raw, np.float32(rate), span)",
        TEST_DAE,
        "a_full_row_fills",
        pitfall=7,
    ),
    Mutant(
        "half-way cases are rounded up, not to the even one",
        SPANS,
        "hidden = np.maximum(np.rint(num_raw * rate).astype(np.int64), 1)",
        "hidden = np.maximum(np.floor(num_raw * rate + 0.5).astype(np.int64), 1)",
        TEST_DAE,
        "half_way_cases",
        pitfall=7,
    ),
    Mutant(
        "sentinels are never said to be too few where 100 are there",
        DAE,
        "full, needed = self.lengths(length), self.sentinels(length)",
        "full, needed = self.lengths(length), min(100, self.sentinels(length))",
        TEST_DAE,
        "too_few_sentinels",
        pitfall=7,
    ),
    Mutant(
        "sentinels start again after the last one",
        DAE,
        "[runs.run[mark] // 2]",
        "[runs.run[mark] // 2 % 8]",
        TEST_DAE,
        "the_text_can_be_rebuilt",
        pitfall=7,
    ),
    Mutant(
        "hidden spans are as long as the clear ones before them",
        SPANS,
        'counter_rng.random_composition(key, "hidden", hidden, spans)',
        'counter_rng.random_composition(key, "clear", hidden, spans)',
        TEST_DAE,
        "all_cuts_are_equally_likely",
    ),
    Mutant(
        "spans have lengths of a distribution, not of a fixed sum",
        SPANS,
        'counter_rng.random_composition(key, "hidden", hidden, spans)',
        "np.cumsum(\n"
        "        1 + (counter_rng.uniform(key, 'hidden', int(spans.max(initial=0)))\n"
        "        * (2 * span - 1)).astype(np.int64), axis=1).clip(0, hidden[:, None])",
        TEST_DAE,
        "a_full_row_fills",
    ),
    Mutant(
        "T5's BERT-style row has one random token in five",
        DAE,
        "RANDOM = 0.1",
        "RANDOM = 0.2",
        TEST_VARIANTS,
        "nine_masks_to_one",
    ),
    Mutant(
        "random tokens may be padding or the end of the text",
        SPANS,
        "vocab.ordinary_ids[other], token[hidden])",
        "other.astype(np.int32), token[hidden])",
        TEST_REWRITE,
        "random_and_never_special",
        pitfall=8,
    ),
    Mutant(
        "lengths are drawn from a generator that nobody has seeded",
        REWRITE,
        'draw = counter_rng.uniform(key, "lengths", count)',
        "draw = np.random.random((len(key), count))",
        TEST_REWRITE,
        "their_own_row_alone",
        pitfall=8,
    ),
    Mutant(
        "sentences end at one token's number, which other vocabularies do not have",
        REWRITE,
        "start = here & ((text.flags & SENTENCE) > 0)",
        "start = here & (np.roll(text.token, 1, axis=1) == 29)",
        TEST_REWRITE,
        "sentences_do_not_depend",
        pitfall=8,
    ),
    Mutant(
        "spans without length add no mask",
        REWRITE,
        "empty = (drawn & (length == 0)).sum(axis=1)",
        "empty = 0 * drawn.sum(axis=1)",
        TEST_REWRITE,
        "a_span_without_length",
        pitfall=8,
    ),
    Mutant(
        "a mask for each word of a span",
        REWRITE,
        "mark = found.first & _tokens(found, (span > 0) & ~covered)",
        "mark = found.first & _tokens(found, (span > 0) | covered)",
        TEST_REWRITE,
        "infilling_puts_its_spans",
    ),
    Mutant(
        "spans go past separators",
        REWRITE,
        "end = np.where(span > 0, np.minimum(number + span, found.end), 0)",
        "end = np.where(span > 0, number + span, 0)",
        TEST_REWRITE,
        "past_a_separator",
    ),
    Mutant(
        "the last span is not cut to the budget",
        REWRITE,
        "return np.clip(left, 0, length), left > 0",
        "return length, left > 0",
        TEST_REWRITE,
        "lengths_are_poisson",
    ),
    Mutant(
        "BART's decoder starts with bos",
        BART,
        "return seq2seq.batch(noisy, clean, vocab, vocab.eos_id)",
        "return seq2seq.batch(noisy, clean, vocab, vocab.bos_id)",
        TEST_BART,
        "decoder_starts_with_eos",
    ),
    Mutant(
        "the decoder's positions count from the span's beginning",
        MASS,
        'decoder["position"] = np.where(used, before, 0)',
        'decoder["position"] = np.where(used, slot, 0)',
        TEST_MASS,
        "every_span_is_aligned",
    ),
    Mutant(
        "kept and random tokens of the span are not scored",
        MASS,
        "weight = used & ~vocab.is_special[target]",
        "weight = used & np.isin(target, encoder, invert=True)",
        TEST_MASS,
        "mostly_masked_but_always_scored",
        pitfall=16,
    ),
    Mutant(
        "the stage of a schedule is counted in the process, and lost with it",
        MIX,
        "self.draw(key, example.step)",
        "self.draw(\n"
        "            key, 0 * example.step + next(\n"
        '                self.__dict__.setdefault("calls", iter(range(10**9)))))',
        TEST_MIX,
        "a_stage_is_that_of_the_step",
        pitfall=9,
    ),
    Mutant(
        "a row's part is told by its place in the batch",
        MIX,
        'return (counter_rng.uniform(key, "mix", 1) >= ends_BP[:, :-1]).sum(axis=1)',
        "return np.arange(len(key)) % len(self._made) + 0 * key.astype(np.int64)",
        TEST_MIX,
        "shares_are_kept",
    ),
]
