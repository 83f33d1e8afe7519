"""Generation: the cache, searches, samples and how prompts are laid out."""

from tests.proofs.mutation import Mutant

CACHE = "research/networks/layers/cache.py"
BEAMS = "research/generation/beams.py"
TEXTS = "research/generation/texts.py"
NEXT = "research/generation/next_token.py"
CONTINUATION = "research/generation/continuation.py"
TEST_CACHE = "tests/networks/test_cache.py"
TEST_DECODING = "tests/generation/test_decoding.py"
TEST_GENERATE = "tests/generation/test_generate.py"
TEST_FILL = "tests/generation/test_fill.py"
COMPOSITE = "research/objectives/inputs/composite.py"
TEST_COMPOSITE = "tests/objectives/inputs/test_composite.py"

MUTANTS = [
    Mutant(
        "the next call writes its keys over the last slot of the call before",
        CACHE,
        "used = self.used + own.key.shape[-3]",
        "used = self.used + own.key.shape[-3] - 1",
        TEST_CACHE,
        "reads_a_text_in_parts and rotary and causal",
    ),
    Mutant(
        "the causal pattern of later calls counts queries from the first slot",
        "research/networks/layers/dense_attention.py",
        "query_index += 0 if inputs.start is None else inputs.start",
        "query_index += 0",
        TEST_CACHE,
        "reads_a_text_in_parts and rotary and causal",
    ),
    Mutant(
        "appended queries are keys of later calls",
        CACHE,
        "write(self.group[name], group[name][:, :num_keys], self.used, 1)",
        "write(self.group[name], group[name], self.used, 1)",
        TEST_CACHE,
        "appended_queries",
    ),
    Mutant(
        "beams keep the keys of the rows that they replace",
        CACHE,
        'lambda x: jnp.take(x, row, 1, mode="clip")',
        "lambda x: x",
        TEST_GENERATE,
        "beams_are",
    ),
    Mutant(
        "the length penalty multiplies log p, so that short texts win",
        BEAMS,
        "((5.0 + length) / 6.0) ** options.length_penalty",
        "((5.0 + length) / 6.0) ** -options.length_penalty",
        TEST_DECODING,
        "ranks_them_as_a_full_search",
    ),
    Mutant(
        "texts that have ended go on",
        BEAMS,
        "log_p_BK = jnp.where(ends, -jnp.inf, log_p_BK)",
        "log_p_BK = jnp.where(ends & False, -jnp.inf, log_p_BK)",
        TEST_DECODING,
        "overtake",
    ),
    Mutant(
        "the search ends at the first text that has ended",
        BEAMS,
        "done = ended.score[:, -1] >= jnp.max(log_p_BK, axis=1) / limit",
        "done = ended.score[:, 0] > -jnp.inf",
        TEST_DECODING,
        "early_end or full_search",
    ),
    Mutant(
        "the end of the search takes the penalty of the length so far",
        BEAMS,
        "limit = length_penalty(options, jnp.float32(options.max_tokens))",
        "limit = length_penalty(options, length)",
        TEST_DECODING,
        "overtake",
    ),
    Mutant(
        "top_p leaves out the token that crosses it",
        NEXT,
        "before_RV = jnp.cumsum(p_RV, axis=-1) - p_RV",
        "before_RV = jnp.cumsum(p_RV, axis=-1)",
        TEST_DECODING,
        "tail_is_cut",
    ),
    Mutant(
        "samples of all rows have the same noise",
        NEXT,
        "jax.random.fold_in(jax.random.fold_in(key, row), count)",
        "jax.random.fold_in(key, count)",
        TEST_DECODING,
        "depends_on_its_row_alone",
    ),
    Mutant(
        "the repetition penalty raises seen tokens whose logit is negative",
        NEXT,
        "jnp.where(logits > 0, logits / penalty, logits * penalty)",
        "logits / penalty",
        TEST_DECODING,
        "repetition_penalty",
    ),
    Mutant(
        "eos counts in the log p of a text that has ended before",
        TEXTS,
        "log_p=state.log_p + jnp.where(state.done, 0.0, log_p_B)",
        "log_p=state.log_p + log_p_B",
        TEST_DECODING,
        "keeps_its_log_p",
    ),
    Mutant(
        "a new token has the position of the token before",
        CONTINUATION,
        'for name in ("position", "rank", "reach")',
        'for name in ("rank", "reach")',
        TEST_GENERATE,
        "most_probable_by_the_loss and lm",
    ),
    Mutant(
        "masks that UniLM appended stay in the text",
        CONTINUATION,
        "cache = cache.without_last(1)",
        "pass",
        TEST_GENERATE,
        "most_probable_by_the_loss and unilm",
    ),
    Mutant(
        "MASS writes on behind its span",
        CONTINUATION,
        'at_end_R1 = (last["position"] >= end)[:, None]',
        'at_end_R1 = (last["position"] > end)[:, None]',
        TEST_GENERATE,
        "most_probable_by_the_loss and mass",
    ),
    Mutant(
        "the decoder of a prompt attends to the encoder's masks",
        CONTINUATION,
        "seq2seq.encode(net, encoder)",
        "net.encode(encoder)",
        TEST_GENERATE,
        "most_probable_by_the_loss and mass",
    ),
    Mutant(
        "of several parts that write the first is taken",
        "research/generation/generate.py",
        "if not part and len(writers) == 1:",
        "if not part and writers:",
        TEST_GENERATE,
        "the_method_names_one",
    ),
    Mutant(
        "T5's first sentinel is spelled as the second",
        "research/generation/text.py",
        "enumerate(vocabulary.vocab.sentinel_ids)",
        "enumerate(vocabulary.vocab.sentinel_ids, 1)",
        "tests/launch/test_generate.py",
        "sentinels_and_the_space",
    ),
    Mutant(
        "ELECTRA's discriminator fills in masks, which it never reads",
        "research/generation/fill.py",
        "objective.token_predictor(net)",
        "objective.text_encoder(net)",
        TEST_FILL,
        "best_tokens and electra",
    ),
    Mutant(
        "masks are filled where the state before them predicts their tokens",
        "research/objectives/mlm.py",
        'return self.mask_fraction > 0 and self.predict_at == "masked"',
        "return self.mask_fraction > 0",
        TEST_FILL,
        "predicted_elsewhere",
    ),
    Mutant(
        "a joint objective fills masks by ELECTRA's discriminator",
        COMPOSITE,
        "return next(filling).token_predictor(net)",
        "return next(filling).text_encoder(net)",
        TEST_COMPOSITE,
        "electra",
    ),
    Mutant(
        "a score of a part of a part is asked of the part",
        COMPOSITE,
        "return member.scored_part(own)",
        "return member, own",
        TEST_COMPOSITE,
        "parts_within_parts",
    ),
]
