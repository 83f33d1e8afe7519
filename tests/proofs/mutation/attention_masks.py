"""Attention masks: permuted and causal language models, UniLM, mems."""

from tests.proofs.mutation import Mutant

PLM = "research/objectives/plm.py"
QUERIES = "research/objectives/inputs/query_stream.py"
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
        "an n-gram begins inside one that was chosen before it",
        UNILM,
        "settled = np.array_equal(before, begins)",
        "settled = True",
        TEST_UNILM,
        "one_after_the_other",
    ),
    Mutant(
        "a token of a passage recurs if it is in the rest of another passage",
        "research/objectives/tagging.py",
        "        occurs[later] = False\n",
        "",
        "tests/objectives/test_tagging.py",
        "size_of_the_table",
    ),
    Mutant(
        "targets are masks in the content stream, so that no order carries a token",
        QUERIES,
        "name: np.concatenate([content[name], query[name]], axis=1, dtype=np.int32)",
        "name: np.concatenate(\n"
        '                [np.where(chosen & (name == "token"), vocab.mask_id, '
        "content[name]),\n"
        "                 query[name]], axis=1, dtype=np.int32)",
        TEST_PLM,
        "a_query_has",
        pitfall=1,
    ),
    Mutant(
        "a query attends to its own target",
        QUERIES,
        '"reach": of_target["reach"] - 1,',
        '"reach": of_target["reach"],',
        TEST_PLM,
        "attention_of_every_pair",
        pitfall=1,
    ),
    Mutant(
        "all tokens attend to specials, which the paper ranks as targets",
        PLM,
        "rank = np.where(chosen | special, base + order, base - 1)",
        "rank = np.where(chosen, base + order, base - 1)",
        TEST_PLM,
        "attention_of_every_pair",
        pitfall=2,
    ),
    Mutant(
        "the parts of a row of odd length leave out its last token",
        PLM,
        "edge = num_tokens * np.arange(num_parts + 1) // num_parts",
        "edge = num_tokens // num_parts * np.arange(num_parts + 1)",
        TEST_PLM,
        "attention_of_every_pair",
        pitfall=2,
    ),
    Mutant(
        "one order for both halves: the reused half attends to the other",
        PLM,
        "base = part * (length + 1)",
        "base = 0 * part",
        TEST_PLM,
        "attention_of_every_pair",
    ),
    Mutant(
        "both halves of a row have the same order",
        PLM,
        'order = counter_rng.permutation(key, "order", length)',
        'order = np.tile(counter_rng.permutation(key, "order", -(-length // 2)), 2)\n'
        "        order = order[:, :length]",
        TEST_PLM,
        "an_order_of_its_own",
    ),
    Mutant(
        "the larger half of the targets goes to the last half of a row",
        PLM,
        "-(-total * np.arange(num_parts + 1) // num_parts)",
        "total * np.arange(num_parts + 1) // num_parts",
        TEST_PLM,
        "one_token_in_six",
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
        "XLNet's class token has the second segment's token type",
        SEGMENTS,
        "token_type[row, text.length[row]] = NUM_TOKEN_TYPES - 1",
        "token_type[row, text.length[row]] = NUM_TOKEN_TYPES - 2",
        TEST_PAIRS,
        "text_in_two_segments",
    ),
    Mutant(
        "spans of all lengths are as likely, where p ~ 1/n is published",
        "research/objectives/corruption/xlnet_spans.py",
        "odds = 1 / np.arange(1, max_span + 1)",
        "odds = np.ones(max_span)",
        "tests/objectives/corruption/test_xlnet_spans.py",
        "follow_one_over_n",
    ),
    Mutant(
        "missing targets are not filled up with single tokens",
        PLM,
        "missing = goal[:, part] - (chosen & inside).sum(axis=1)",
        "missing = 0 * goal[:, part]",
        TEST_PLM,
        "one_token_in_six",
    ),
    Mutant(
        "positions of backward rows rise",
        PLM,
        "position = np.where(backward[:, None], length - 1 - index, index)",
        "position = np.where(backward[:, None], index, index)",
        TEST_RECURRENCE,
        "a_backward_row_continues",
    ),
    Mutant(
        "nonadjacent second segments are never drawn",
        SEGMENTS,
        "nonadjacent = ((draw[:, 0] < nonadjacent_rate) &",
        "nonadjacent = ((draw[:, 0] < 0) &",
        TEST_PAIRS,
        "half_of_the_second_segments",
    ),
    Mutant(
        "a row has mems of another text, at the end of a shard or of an epoch",
        RECURRENCE,
        'continues = batch["example"] == carry["next"]',
        'continues = batch["example"] >= 0',
        TEST_RECURRENCE,
        "only_of_the_text_before",
    ),
    Mutant(
        "gradients flow into mems",
        "research/networks/modules/blocks.py",
        "return after, lax.stop_gradient(x[:, slice(*memorize)])",
        "return after, x[:, slice(*memorize)]",
        "tests/networks/test_mems.py",
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
        "token = np.where(index == 0, vocab.bos_id, np.roll(target, 1, axis=1))",
        TEST_LM,
        "documents_apart",
        pitfall=10,
    ),
    Mutant(
        "packed documents restart their positions, but share a segment",
        LM,
        "segment = np.cumsum(start, axis=1, dtype=np.int32) * valid",
        "segment = valid.astype(np.int32)",
        TEST_LM,
        "documents_apart",
        pitfall=10,
    ),
    Mutant(
        "a prefix is scored, though it attends to itself",
        LM,
        "scored, rank = valid & (position >= cut), np.maximum(0, position - cut)",
        "scored, rank = valid, np.maximum(0, position - cut)",
        TEST_LM,
        "a_prefix_attends_to_itself",
        pitfall=15,
    ),
    Mutant(
        "a backward model reads its text forward",
        LM,
        "order = np.where(index < end, end - 1 - index, index)",
        "order = np.where(index < end, index, index)",
        TEST_LM,
        "backward_is_forward",
    ),
    Mutant(
        "the two directions of a biLM count twice",
        LM,
        "coef = term.coef / len(DIRECTIONS)",
        "coef = term.coef",
        TEST_LM,
        "both_directions",
    ),
    Mutant(
        "a source attends to its target",
        UNILM,
        "[0, position + 1 - source, position],",
        "[0, 0 * position, position],",
        TEST_UNILM,
        "the_attention_mask",
    ),
    Mutant(
        "a source is causal",
        UNILM,
        "return np.maximum(rank, 0).astype(np.int32)",
        "return rank.astype(np.int32)",
        TEST_UNILM,
        "the_attention_mask",
    ),
    Mutant(
        "the end of a target is never masked: nothing teaches where to stop",
        UNILM,
        "candidate |= last & (two & (mode == SEQ2SEQ))[:, None]",
        "candidate |= last & (two & (mode == -1))[:, None]",
        TEST_UNILM,
        "the_only_special_that_is_chosen",
    ),
    Mutant(
        "the sentence loss counts for pairs that are not bidirectional",
        UNILM,
        "weight = labels.label_weight * (mode == BIDIRECTIONAL)",
        "weight = labels.label_weight * (mode <= SEQ2SEQ)",
        TEST_UNILM,
        "only_bidirectional_pairs",
    ),
    Mutant(
        "a network that was pretrained causally is bidirectional in fine-tuning",
        "research/objectives/inputs/task_input.py",
        'return "causal" if self.format == "gpt" else "full"',
        'return "full"',
        "tests/objectives/test_sequence_classification.py",
        "gpt_is_causal",
    ),
    Mutant(
        "XLNet's first segment is never trimmed",
        SEGMENTS,
        "from_first = np.where(first > second, uneven, 0) + (over - uneven) // 2",
        "from_first = 0 * uneven",
        TEST_PAIRS,
        "two_segments_and_the_class_token",
    ),
]
