"""Mutants of masking and of pairs of spans."""

from tests.proofs.mutation import Mutant

MASKING = "research/objectives/corruption/masking.py"
MASK_UNITS = "research/objectives/corruption/mask_units.py"
MLM = "research/objectives/mlm.py"
SENTENCE_PAIRS = "research/objectives/inputs/sentence_pairs.py"
COUNTER_RNG = "research/data/counter_rng.py"

TEST_MASKING = "tests/objectives/corruption/test_masking.py"
TEST_MASK_UNITS = "tests/objectives/corruption/test_mask_units.py"
TEST_MLM = "tests/objectives/test_mlm.py"
TEST_FORMATS = "tests/objectives/test_mlm_formats.py"
TEST_SENTENCE_PAIRS = "tests/objectives/inputs/test_sentence_pairs.py"

MUTANTS = [
    Mutant(
        "words start only at the marks of one tokenizer",
        "research/data/tokenizers/vocabulary.py",
        "flags[starts | self._starts_with_space[token]] = WORD",
        "flags[self._starts_with_space[token]] = WORD",
        "tests/data/tokenizers/test_vocabulary.py",
        "words_start_where",
        pitfall=3,
    ),
    Mutant(
        "unk is drawn by its count, as a word",
        MLM,
        '            which["weight"][vocab.unk_id] = 0\n',
        "",
        TEST_MLM,
        "unk_is_not_drawn",
    ),
    Mutant(
        "padding counts in the budget of a row",
        MLM,
        "num_tokens, self.rate, most,",
        "0 * num_tokens + text.token.shape[1], self.rate, most,",
        TEST_MLM,
        "the_number_of_chosen_tokens",
        pitfall=3,
    ),
    Mutant(
        "2 % random words in place of 10 %",
        MASKING,
        "new = np.where(draw < mask_fraction + random_fraction, other, target)",
        "threshold = mask_fraction + random_fraction * (1 - mask_fraction)\n"
        "    new = np.where(draw < threshold, other, target)",
        TEST_MASKING,
        "eighty_ten_ten",
        pitfall=3,
    ),
    Mutant(
        "a global generator draws the replacements of tokens",
        MASKING,
        'bits = counter_rng.random_bits(key, "replace", num_scored)',
        "bits = np.random.randint(2**62, size=used.shape).astype(np.uint64) << 2",
        "tests/laws/test_contract.py",
        "a_row_is_a_function and mlm",
        pitfall=3,
    ),
    Mutant(
        "class tokens and separators are masked",
        MASK_UNITS,
        "candidate = ~vocab.is_special[text.token]",
        "candidate = text.token != vocab.pad_id",
        TEST_MLM,
        "no_special_is_chosen",
        pitfall=4,
    ),
    Mutant(
        "specials are chosen whatever the system",
        MLM,
        'candidates: str = choice("ordinary", TOKEN_SETS)',
        'candidates: str = choice("all", TOKEN_SETS)',
        "tests/laws/test_specials.py",
        "neither_chosen_nor_drawn or named_systems",
        pitfall=4,
    ),
    Mutant(
        "random tokens are drawn from the batch",
        MASKING,
        "    other = random_ids(bits, vocab, random_tokens)\n",
        "    pool = np.unique(target[used])\n"
        "    other = pool[bits % np.uint64(len(pool))]\n",
        TEST_MLM,
        "random_tokens_are_uniform",
        pitfall=4,
    ),
    Mutant(
        "random tokens include specials",
        MASKING,
        'pool = vocab.ordinary_ids if random_tokens == "ordinary" else every',
        "pool = every",
        TEST_MASKING,
        "random_tokens_are_uniform",
        pitfall=4,
    ),
    Mutant(
        "random tokens of the corpus are its tokens, each as often",
        MASKING,
        "return np.where(vocab.is_special, 0, vocab.token_count).astype(np.int64)",
        "return ~vocab.is_special & (vocab.token_count > 0)",
        TEST_MASKING,
        "as_frequent_as_there",
    ),
    Mutant(
        "the last draw alone says whether a position is masked",
        MASKING,
        "    token[row, scored[row, slot]] = vocab.mask_id\n",
        "    token[row, scored[row, slot]] = vocab.mask_id\n"
        "    row, slot = np.nonzero(used & ~hidden)\n"
        "    token[row, scored[row, slot]] = original[row, slot]\n",
        TEST_MASKING,
        "if_one_of_its_draws",
    ),
    Mutant(
        "weights are derived from mask tokens: kept and random tokens do not count",
        MASKING,
        'return {"scored": scored, "target": target, "weight": used.astype(np.float32)}'
        "\n\n\ndef span_boundaries",
        "weight = (new == vocab.mask_id) * np.float32(1)\n"
        '    return {"scored": scored, "target": target, "weight": weight}'
        "\n\n\ndef span_boundaries",
        TEST_MLM,
        "the_number_of_chosen_tokens",
        pitfall=16,
    ),
    Mutant(
        "mask, random or stay is drawn for each position of a span",
        MASKING,
        'if draw_unit == "span":',
        'if draw_unit == "spans":',
        TEST_MASKING,
        "eighty_ten_ten",
    ),
    Mutant(
        "lengths of spans are clipped, not renormalised: a mean of 4.5 words, not 3.8",
        MASK_UNITS,
        "return weight / weight.sum()",
        "weight[-1] += (1 - weight.sum()) * (weight.sum() < 1)\n"
        "    return weight / weight.sum()",
        TEST_MASK_UNITS,
        "lengths_are_as_published",
    ),
    Mutant(
        "n-grams of all lengths are equally likely",
        MASK_UNITS,
        '"ngram": 1 / n',
        '"ngram": n / n',
        TEST_MASK_UNITS,
        "lengths_are_as_published",
    ),
    Mutant(
        "n-grams cross separators",
        MASK_UNITS,
        "joined[:, 1:] = exists[:, 1:] & (begin[:, 1:] == end[:, :-1])",
        "joined[:, 1:] = exists[:, 1:]",
        TEST_MASK_UNITS,
        "stops_at_a_special",
        pitfall=6,
    ),
    Mutant(
        "spans overlap",
        MASK_UNITS,
        "accepted = (num > 0) & ~(taken[at] & fits).any(axis=1)",
        "accepted = num > 0",
        TEST_MASK_UNITS,
        "whole_words_and_keep_the_budget",
    ),
    Mutant(
        "SpanBERT's spans never merge: runs are shorter than published",
        MASK_UNITS,
        'choose = choose_spans if unit == "span" else choose_runs',
        "choose = choose_runs",
        TEST_MASK_UNITS,
        "spans_are_those_of_spanbert",
    ),
    Mutant(
        "SpanBERT's spans begin at random words, not at the words of random tokens",
        MASK_UNITS,
        "order = words.shuffled(_least_of_words(bits, candidate, words))",
        "order = words.shuffled(bits)",
        TEST_MASK_UNITS,
        "spans_are_those_of_spanbert",
    ),
    Mutant(
        "a span beside a special is predicted from its boundaries",
        MASKING,
        "np.where(beside, NEVER, scored - first)",
        "np.where(beside, scored - first, scored - first)",
        TEST_MASKING,
        "boundaries",
    ),
    Mutant(
        "only the first piece of an entity is masked",
        MASK_UNITS,
        "edge[row, position + lexicon.size[entry[begins]]] -= 1",
        "edge[row, position + 1] -= 1",
        "tests/objectives/corruption/test_lexicon_units.py",
        "masked_whole_and_first",
    ),
    Mutant(
        "a random rounding that always rounds down",
        MASKING,
        'np.floor(exact + counter_rng.uniform(key, "budget", 1)[:, 0])',
        "np.floor(exact)",
        TEST_MASKING,
        "budgets",
    ),
    Mutant(
        "short rows have no masked token",
        MASKING,
        "count = np.maximum(np.rint(exact), 1)",
        "count = np.rint(exact)",
        TEST_MASKING,
        "budgets",
    ),
    Mutant(
        "shuffled trigrams overlap masked positions",
        MLM,
        "free = ~special & ~chosen",
        "free = ~special",
        TEST_FORMATS,
        "trigrams",
    ),
    Mutant(
        "the left boundary of a span is its own first token",
        MASKING,
        "left, right = np.where(used, first - 1, 0)",
        "left, right = np.where(used, first, 0)",
        TEST_MASKING,
        "boundaries",
    ),
    Mutant(
        "the boundary loss is computed and dropped",
        MLM,
        'terms["sbo"] = cross_entropy',
        'dict(terms)["sbo"] = cross_entropy',
        TEST_FORMATS,
        "the_positions_and_weights",
        pitfall=13,
    ),
    Mutant(
        "the readout lacks BERT's layer",
        MLM,
        "            transform=True,\n",
        "",
        TEST_MLM,
        "the_readout_has_a_layer",
    ),
    Mutant(
        "the negatives of NSP are swapped adjacent pairs",
        SENTENCE_PAIRS,
        "label = has_label & ~adjacent",
        'swapped = adjacent & (counter_rng.uniform(key, "swap", 1)[:, 0] < 0.5)\n'
        "        label = swapped | two_documents",
        TEST_SENTENCE_PAIRS,
        "nsp_labels_another_document",
        pitfall=6,
    ),
    Mutant(
        "SOP counts pairs of two documents as swapped, which their topics reveal",
        SENTENCE_PAIRS,
        'has_label = adjacent | (two_documents & (task == "sop_released"))',
        "has_label = adjacent | two_documents",
        TEST_SENTENCE_PAIRS,
        "sop_of_two_documents",
    ),
    Mutant(
        "without NSP the pairs change: not the published ablation",
        SENTENCE_PAIRS,
        '_OTHER_DOCUMENT_RATE.get(task, _OTHER_DOCUMENT_RATE["nsp"])',
        "_OTHER_DOCUMENT_RATE.get(task, 0.0)",
        TEST_SENTENCE_PAIRS,
        "the_pairs_that_each_task_takes",
    ),
    Mutant(
        "every epoch has the same noise",
        COUNTER_RNG,
        "for counter in (epoch, example):",
        "for counter in (example,):",
        "tests/data/test_counter_rng.py",
        "keys_and_roles",
    ),
    Mutant(
        "all rows of an epoch share their noise",
        COUNTER_RNG,
        "for counter in (epoch, example):",
        "for counter in (epoch,):",
        "tests/data/test_counter_rng.py",
        "keys_and_roles",
    ),
    Mutant(
        "masked next-token prediction reads the masked position itself",
        MLM,
        'np.maximum(scored["scored"] - 1, 0)',
        'np.maximum(scored["scored"], 0)',
        TEST_MLM,
        "token_before_it",
    ),
]
