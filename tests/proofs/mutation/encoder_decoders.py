"""Encoder-decoders: the encoder's noisy text, the decoder's input and target."""

from tests.proofs.mutation import Mutant

SEQ2SEQ = "research/objectives/inputs/seq2seq.py"
SPANS = "research/objectives/corruption/spans.py"
DAE = "research/objectives/dae.py"
NOISE = "research/objectives/corruption/bart_noise.py"
BART = "research/objectives/bart.py"
MASS = "research/objectives/mass.py"
MIX = "research/objectives/mix.py"

TEST_DAE = "tests/objectives/test_dae.py"
TEST_VARIANTS = "tests/objectives/test_dae_variants.py"
TEST_NOISE = "tests/objectives/corruption/test_bart_noise.py"
TEST_BART = "tests/objectives/test_bart.py"
TEST_MASS = "tests/objectives/test_mass.py"
TEST_MIX = "tests/objectives/test_mix.py"

MUTANTS = [
    Mutant(
        "short sentences are read, of which a span is a word",
        "research/data/units/sentence.py",
        "kept = (size >= self.shortest) & (size <= self.length)",
        "kept = (size >= 1) & (size <= self.length)",
        "tests/data/units/test_packing.py",
        "a_sentence_is_a_row",
    ),
    Mutant(
        "the decoder reads its targets: a loss of nearly zero",
        SEQ2SEQ,
        "before[:, 1:] = token[:, :-1]",
        "before[:] = token",
        TEST_DAE,
        "one_position_late",
        pitfall=15,
    ),
    Mutant(
        "the third language of MASS has no token type, and no attention to the encoder",
        MASS,
        "languages = vocab.num_corpora if vocab.num_corpora > 1 else 0",
        "languages = 0",
        TEST_MASS,
        "for_each_corpus",
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
        "the noise mask rounds in single precision, the lengths in double",
        SPANS,
        "hidden, spans = span_counts(num_raw, rate, mean_span)",
        "hidden, spans = span_counts(num_raw, np.float32(rate), mean_span)",
        TEST_DAE,
        "a_full_row_fills",
        pitfall=7,
    ),
    Mutant(
        "ties are rounded up, not to even",
        SPANS,
        "hidden = np.maximum(np.rint(num_raw * rate).astype(np.int64), 1)",
        "hidden = np.maximum(np.floor(num_raw * rate + 0.5).astype(np.int64), 1)",
        TEST_DAE,
        "ties_round_to_even",
        pitfall=7,
    ),
    Mutant(
        "too few sentinels are no error where there are 100",
        DAE,
        "full, needed = self.lengths(length), self.num_sentinels(length)",
        "full, needed = self.lengths(length), min(100, self.num_sentinels(length))",
        TEST_DAE,
        "too_few_sentinels",
        pitfall=7,
    ),
    Mutant(
        "a prefix LM's first target is read by the prefix",
        "research/objectives/inputs/text_to_text.py",
        'group["rank"] - num_read[:, None], 0)',
        'group["rank"] - num_read[:, None] - 1, 0)',
        "tests/objectives/inputs/test_text_to_text.py",
        "joined_text",
    ),
    Mutant(
        "the encoder of shared stacks is causal",
        "research/networks/modules/encoder_decoder.py",
        'self.encoder(x, group, pattern="full")',
        "self.encoder(x, group)",
        "tests/networks/test_encoder_decoder_and_electra.py",
        "shared_stacks",
    ),
    Mutant(
        "a long target takes the input's room",
        "research/data/units/parts.py",
        "np.maximum(two - (self.length - room), 0)",
        "np.maximum(two - self.length, 0)",
        "tests/data/units/test_parts.py",
        "rooms_of_their_own",
    ),
    Mutant(
        "sentinels start again from the first after the eighth",
        SPANS,
        "[runs.run[first] // 2]",
        "[runs.run[first] // 2 % 8]",
        TEST_DAE,
        "the_text_can_be_reconstructed",
        pitfall=7,
    ),
    Mutant(
        "hidden spans are as long as the clear runs before them",
        SPANS,
        'counter_rng.random_composition(key, "hidden", hidden, spans)',
        'counter_rng.random_composition(key, "clear", hidden, spans)',
        TEST_DAE,
        "all_divisions_are_equally_likely",
    ),
    Mutant(
        "spans have lengths of a distribution, not of a fixed sum",
        SPANS,
        'counter_rng.random_composition(key, "hidden", hidden, spans)',
        "np.cumsum(\n"
        "        1 + (counter_rng.uniform(key, 'hidden', int(spans.max(initial=0)))\n"
        "        * (2 * mean_span - 1)).astype(np.int64), axis=1)"
        ".clip(0, hidden[:, None])",
        TEST_DAE,
        "a_full_row_fills",
    ),
    Mutant(
        "T5's BERT-style row has one random token in five",
        DAE,
        "RANDOM_FRACTION = 0.1",
        "RANDOM_FRACTION = 0.2",
        TEST_VARIANTS,
        "nine_masks_to_one",
    ),
    Mutant(
        "random tokens may be padding or the end of the text",
        SPANS,
        "other = random_ids(draw, vocab, random_tokens)",
        'other = random_ids(draw, vocab, "all")',
        TEST_NOISE,
        "random_and_never_special",
        pitfall=8,
    ),
    Mutant(
        "span lengths are drawn from an unseeded generator",
        NOISE,
        'draw = counter_rng.uniform(key, "lengths", num_draws)',
        "draw = np.random.random((len(key), num_draws))",
        TEST_NOISE,
        "their_own_row_alone",
        pitfall=8,
    ),
    Mutant(
        "sentences end at one token id, which is another token in other vocabularies",
        NOISE,
        "start = valid & ((text.flags & SENTENCE) > 0)",
        "start = valid & (np.roll(text.token, 1, axis=1) == 29)",
        TEST_NOISE,
        "sentences_do_not_depend",
        pitfall=8,
    ),
    Mutant(
        "empty spans add no mask",
        NOISE,
        "num_empty = (drawn & (length == 0)).sum(axis=1)",
        "num_empty = 0 * drawn.sum(axis=1)",
        TEST_NOISE,
        "an_empty_span",
        pitfall=8,
    ),
    Mutant(
        "a mask for each word of a span",
        NOISE,
        "words.first[((span > 0) & ~covered)[words.valid]]",
        "words.first[((span > 0) | covered)[words.valid]]",
        TEST_NOISE,
        "infilled_spans_are_uniform",
    ),
    Mutant(
        "spans cross separators",
        NOISE,
        "end = np.where(span > 0, np.minimum(number + span, words.span_limit), 0)",
        "end = np.where(span > 0, number + span, 0)",
        TEST_NOISE,
        "cross_a_separator",
    ),
    Mutant(
        "the last span is not cut to the budget",
        NOISE,
        "return np.clip(left, 0, length), left > 0",
        "return length, left > 0",
        TEST_NOISE,
        "lengths_are_poisson",
    ),
    Mutant(
        "BART's decoder starts with bos",
        BART,
        "return seq2seq.make_batch(noisy, clean, vocab, vocab.eos_id)",
        "return seq2seq.make_batch(noisy, clean, vocab, vocab.bos_id)",
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
        "weight = used & (all_tokens | ~vocab.is_special[target])",
        "weight = used & np.isin(target, encoder, invert=True)",
        TEST_MASS,
        "mostly_masked_but_always_scored",
        pitfall=16,
    ),
    Mutant(
        "the stage of a schedule is counted in the process, so a resume restarts it",
        MIX,
        "self.draw_parts(key, example.step)",
        "self.draw_parts(\n"
        "            key, 0 * example.step + next(\n"
        '                self.__dict__.setdefault("calls", iter(range(10**9)))))',
        TEST_MIX,
        "a_stage_depends_on_the_step",
        pitfall=9,
    ),
    Mutant(
        "a row's part depends on its index in the batch",
        MIX,
        'return (counter_rng.uniform(key, "mix", 1) >= ends_BP[:, :-1]).sum(axis=1)',
        "return np.arange(len(key)) % len(rates) + 0 * key.astype(np.int64)",
        TEST_MIX,
        "at_the_mixing_rates",
    ),
    Mutant(
        "no span of MASS predicts eos",
        MASS,
        "self._draw_begin(key, num_raw + all_tokens - size)",
        "self._draw_begin(key, np.maximum(num_raw - size, 0))",
        TEST_MASS,
        "may_predict_eos",
    ),
    Mutant(
        "MASS's decoder attends to the encoder's masks, which the field forbids",
        SEQ2SEQ,
        'if "cross_segment" in batch:',
        'if "cross_segments" in batch:',
        TEST_MASS,
        "unmasked_positions_alone",
    ),
    Mutant(
        "parts of a mixture that read less never read the end of a window",
        "research/objectives/inputs/shared_input.py",
        "spec.random_start or spec.length < longest.length for spec",
        "spec.random_start for spec",
        TEST_MIX,
        "rows_start_at_random_tokens",
    ),
    Mutant(
        "rows with a random start begin at the same tokens in every epoch",
        "research/data/store/example_index.py",
        "start = np.minimum(start + offset.astype(np.int64), latest)",
        "start = np.minimum(start, latest)",
        "tests/data/loading/test_text_source.py",
        "random_starts_are_uniform",
    ),
]
