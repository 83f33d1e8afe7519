"""Who sees whom: permuted and causal language models, UniLM, memories."""

from tests.proofs.mutation import Mutant

PLM = "research/objectives/plm.py"
LM = "research/objectives/lm.py"
UNILM = "research/objectives/unilm.py"
SEGMENTS = "research/objectives/inputs/xlnet_segments.py"
RECURRENCE = "research/objectives/inputs/recurrence.py"

TEST_PLM = "tests/objectives/test_plm.py"
TEST_PAIRS = "tests/objectives/test_plm_pairs.py"
TEST_LM = "tests/objectives/test_lm.py"
TEST_UNILM = "tests/objectives/test_unilm.py"
TEST_RECURRENCE = "tests/objectives/inputs/test_recurrence.py"

MUTANTS = [
    Mutant(
        "targets are masks in the content stream, so that no order carries a token",
        PLM,
        "name: np.concatenate([content[name], query[name]], axis=1, dtype=np.int32)",
        "name: np.concatenate(\n"
        '                [np.where(chosen & (name == "token"), vocab.mask_id, '
        "content[name]),\n"
        "                 query[name]], axis=1, dtype=np.int32)",
        TEST_PLM,
        "a_query_stands",
        pitfall=1,
    ),
    Mutant(
        "a query sees its own target",
        PLM,
        '"reach": of_target["reach"] - 1,',
        '"reach": of_target["reach"],',
        TEST_PLM,
        "visibility_of_every_pair",
        pitfall=1,
    ),
    Mutant(
        "all tokens see specials, which the paper hides from them",
        PLM,
        "rank = np.where(chosen | special, drawn, base - 1)",
        "rank = np.where(chosen, drawn, base - 1)",
        TEST_PLM,
        "visibility_of_every_pair",
        pitfall=2,
    ),
    Mutant(
        "the parts of a row of odd length leave a rest",
        PLM,
        "edge = num_tokens * np.arange(self.parts + 1) // self.parts",
        "edge = num_tokens // self.parts * np.arange(self.parts + 1)",
        TEST_PLM,
        "visibility_of_every_pair",
        pitfall=2,
    ),
    Mutant(
        "one order for both halves: the reused one sees the other",
        PLM,
        "base = part * (order.shape[1] + 1)",
        "base = 0 * part",
        TEST_PLM,
        "visibility_of_every_pair",
    ),
    Mutant(
        "XLNet's class token comes first",
        SEGMENTS,
        'bos="last"',
        'bos="first"',
        TEST_PLM,
        "class_token_is_last",
    ),
    Mutant(
        "XLNet's class token is of the second segment's kind",
        SEGMENTS,
        "kind[row, text.length[row]] = NUM_KINDS - 1",
        "kind[row, text.length[row]] = NUM_KINDS - 2",
        TEST_PAIRS,
        "text_in_two_segments",
    ),
    Mutant(
        "spans of all lengths are as likely, where p ~ 1/n is published",
        "research/data/counter_rng.py",
        "odds = 1 / np.arange(1, max_span + 1)",
        "odds = np.ones(max_span)",
        "tests/data/test_counter_rng.py",
        "follow_one_over_n",
    ),
    Mutant(
        "targets that spans do not reach are not made up for",
        PLM,
        "missing = goal[:, part] - (chosen & inside).sum(axis=1)",
        "missing = 0 * goal[:, part]",
        TEST_PLM,
        "one_token_in_six",
    ),
    Mutant(
        "rows that run backwards count their places forwards",
        PLM,
        "position = np.where(backward[:, None], length - 1 - place, place)",
        "position = np.where(backward[:, None], place, place)",
        TEST_RECURRENCE,
        "runs_backwards_goes_on",
    ),
    Mutant(
        "second segments from elsewhere are never drawn",
        SEGMENTS,
        "away = (draw[:, 0] < far) & (size > 0) & (room > 0)",
        "away = (draw[:, 0] < 0) & (size > 0) & (room > 0)",
        TEST_PAIRS,
        "half_of_the_second_segments",
    ),
    Mutant(
        "a row remembers another text, at the end of a shard or of an epoch",
        RECURRENCE,
        'goes_on = batch["example"] == carry["next"]',
        'goes_on = batch["example"] >= 0',
        TEST_RECURRENCE,
        "only_text_that_runs_on",
    ),
    Mutant(
        "gradients flow into mems",
        "research/models/blocks.py",
        "return after, lax.stop_gradient(x[:, slice(*memorize)])",
        "return after, x[:, slice(*memorize)]",
        "tests/models/test_mems.py",
        "no_gradient_flows_through_mems",
    ),
    Mutant(
        "the input is the target: a loss of nearly zero",
        LM,
        "token = np.where(start, vocab.bos_id, np.roll(target, 1, axis=1))",
        "token = np.where(start, vocab.bos_id, target)",
        TEST_LM,
        "input_is_the_target",
        pitfall=15,
    ),
    Mutant(
        "the last token of a document is read to predict the next one's first",
        LM,
        "token = np.where(start, vocab.bos_id, np.roll(target, 1, axis=1))",
        "token = np.where(place == 0, vocab.bos_id, np.roll(target, 1, axis=1))",
        TEST_LM,
        "documents_apart",
        pitfall=10,
    ),
    Mutant(
        "packed documents restart their positions, and that is all",
        LM,
        "segment = np.cumsum(start, axis=1, dtype=np.int32) * here",
        "segment = here.astype(np.int32)",
        TEST_LM,
        "documents_apart",
        pitfall=10,
    ),
    Mutant(
        "a prefix is scored, though it sees itself",
        LM,
        "scored, rank = here & (position >= cut), np.maximum(0, position - cut)",
        "scored, rank = here, np.maximum(0, position - cut)",
        TEST_LM,
        "a_prefix_sees_itself",
        pitfall=15,
    ),
    Mutant(
        "a backward model reads its text forwards",
        LM,
        "order = np.where(place < end, end - 1 - place, place)",
        "order = np.where(place < end, place, place)",
        TEST_LM,
        "backward_is_forward",
    ),
    Mutant(
        "the two directions of a biLM count twice",
        LM,
        "term._replace(coef=term.coef / len(SIDES))",
        "term._replace(coef=term.coef)",
        TEST_LM,
        "both_directions",
    ),
    Mutant(
        "a source sees its target",
        UNILM,
        "[0, place + 1 - source, place],",
        "[0, 0 * place, place],",
        TEST_UNILM,
        "visibility_of_every_pair",
    ),
    Mutant(
        "a source is read from left to right",
        UNILM,
        "return np.maximum(rank, 0).astype(np.int32)",
        "return rank.astype(np.int32)",
        TEST_UNILM,
        "visibility_of_every_pair",
    ),
    Mutant(
        "the end of a target is never hidden: nothing teaches where to stop",
        UNILM,
        "candidate |= closes & (two & (mode == SEQ2SEQ))[:, None]",
        "candidate |= closes & (two & (mode == -1))[:, None]",
        TEST_UNILM,
        "of_specials_only_the_end",
    ),
    Mutant(
        "the sentence loss counts where half of the pair is not seen",
        UNILM,
        "weight = asked.label_weight * (mode == BIDIRECTIONAL)",
        "weight = asked.label_weight * (mode <= SEQ2SEQ)",
        TEST_UNILM,
        "asked_whether_they_are_neighbours",
    ),
    Mutant(
        "what was trained to look back looks both ways when it is fine-tuned",
        "research/objectives/classify.py",
        'return "causal" if self.architecture == "decoder" else "full"',
        'return "full"',
        "tests/objectives/test_classify.py",
        "a_decoder_looks_back",
    ),
]
