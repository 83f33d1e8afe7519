"""What is chosen and what becomes of it: masked language models and pairs of spans."""

from tests.proofs.mutation import Mutant

HIDING = "research/objectives/corruption/masking.py"
UNITS = "research/objectives/corruption/mask_units.py"
MLM = "research/objectives/mlm.py"
RELATIONS = "research/objectives/inputs/sentence_pairs.py"
COUNTER_RNG = "research/data/counter_rng.py"

TEST_HIDING = "tests/objectives/corruption/test_masking.py"
TEST_UNITS = "tests/objectives/corruption/test_mask_units.py"
TEST_MLM = "tests/objectives/test_mlm.py"
TEST_FORMATS = "tests/objectives/test_mlm_formats.py"
TEST_RELATIONS = "tests/objectives/inputs/test_sentence_pairs.py"

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
        "padding counts in the budget of a row",
        MLM,
        "count = budget(text.length,",
        "count = budget(0 * text.length + text.token.shape[1],",
        TEST_MLM,
        "as_many_are_chosen",
        pitfall=3,
    ),
    Mutant(
        "2 % random words in place of 10 %",
        HIDING,
        "new = np.where(share < mask + random, pool[other], target)",
        "new = np.where(share < mask + random * (1 - mask), pool[other], target)",
        TEST_HIDING,
        "eighty_ten_ten",
        pitfall=3,
    ),
    Mutant(
        "a global generator draws what becomes of tokens",
        HIDING,
        'bits = counter_rng.random_bits(key, "replace", num_scored)',
        "bits = np.random.randint(2**62, size=used.shape).astype(np.uint64) << 2",
        "tests/laws/test_contract.py",
        "a_row_is_a_function and mlm",
        pitfall=3,
    ),
    Mutant(
        "class tokens and separators are hidden",
        UNITS,
        "candidate = ~vocab.is_special[text.token]",
        "candidate = text.token != vocab.pad_id",
        TEST_MLM,
        "no_special_is_chosen",
        pitfall=4,
    ),
    Mutant(
        "random words are words of the batch",
        HIDING,
        'pool = vocab.ordinary_ids if draw == "ordinary" else np.arange(vocab.size)',
        "pool = np.unique(target[used])",
        TEST_MLM,
        "random_tokens_are_uniform",
        pitfall=4,
    ),
    Mutant(
        "random words are specials, too, where they should not be",
        HIDING,
        'pool = vocab.ordinary_ids if draw == "ordinary" else np.arange(vocab.size)',
        "pool = np.arange(vocab.size)",
        TEST_HIDING,
        "other_tokens_are_uniform",
        pitfall=4,
    ),
    Mutant(
        "weights are guessed from mask tokens: kept and random words do not count",
        HIDING,
        'return {"scored": scored, "target": target, "weight": used.astype(np.float32)}'
        "\n\n\ndef boundaries",
        'weight = (new == vocab.mask_id) * np.float32(1)\n    return {"scored": scored, '
        '"target": target, "weight": weight}\n\n\ndef boundaries',
        TEST_MLM,
        "as_many_are_chosen",
        pitfall=16,
    ),
    Mutant(
        "the places of a span have fates of their own",
        HIDING,
        'if replace == "span":',
        'if replace == "spans":',
        TEST_HIDING,
        "eighty_ten_ten",
    ),
    Mutant(
        "lengths of spans are clipped, not drawn anew: a mean of 4.5 words, not 3.8",
        UNITS,
        "return weight / weight.sum()",
        "weight[-1] += (1 - weight.sum()) * (weight.sum() < 1)\n"
        "    return weight / weight.sum()",
        TEST_UNITS,
        "lengths_are_as_published",
    ),
    Mutant(
        "n-grams of all lengths are as likely",
        UNITS,
        '"ngram": 1 / n',
        '"ngram": n / n',
        TEST_UNITS,
        "lengths_are_as_published",
    ),
    Mutant(
        "n-grams cross separators",
        UNITS,
        "joined[:, 1:] = held[:, 1:] & (begin[:, 1:] == end[:, :-1])",
        "joined[:, 1:] = held[:, 1:]",
        TEST_UNITS,
        "stops_at_a_special",
        pitfall=6,
    ),
    Mutant(
        "spans lie on each other",
        UNITS,
        "good = (num > 0) & ~(taken[at] & fits).any(axis=1)",
        "good = num > 0",
        TEST_UNITS,
        "whole_words_and_keep_the_budget",
    ),
    Mutant(
        "of an entity the first piece alone is hidden",
        UNITS,
        "edge[row, place + known.size[entry[begins]]] -= 1",
        "edge[row, place + 1] -= 1",
        "tests/objectives/corruption/test_lexicon_units.py",
        "hidden_whole_and_first",
    ),
    Mutant(
        "a random rounding that always rounds down",
        HIDING,
        'np.floor(share + counter_rng.uniform(key, "budget", 1)[:, 0])',
        "np.floor(share)",
        TEST_HIDING,
        "budgets",
    ),
    Mutant(
        "short rows have nothing to recover",
        HIDING,
        "count = np.maximum(np.rint(share), 1)",
        "count = np.rint(share)",
        TEST_HIDING,
        "budgets",
    ),
    Mutant(
        "shuffled trigrams lie on masked places",
        MLM,
        "free = ~vocab.is_special[text.token] & ~chosen",
        "free = ~vocab.is_special[text.token]",
        TEST_FORMATS,
        "trigrams",
    ),
    Mutant(
        "a boundary is the span's own first state",
        HIDING,
        '"left": first - 1,',
        '"left": first,',
        TEST_HIDING,
        "boundaries",
    ),
    Mutant(
        "the boundary's loss is computed and left behind",
        MLM,
        'terms["sbo"] = cross_entropy',
        'dict(terms)["sbo"] = cross_entropy',
        TEST_FORMATS,
        "what_a_loss_reads",
        pitfall=13,
    ),
    Mutant(
        "a masked language model without BERT's layer before its table",
        MLM,
        "pattern=self.pattern, transform=True, **fields",
        "pattern=self.pattern, transform=False, **fields",
        TEST_MLM,
        "through_a_layer",
    ),
    Mutant(
        "the negatives of NSP are swaps of two neighbours",
        RELATIONS,
        "label = has & ~adjacent",
        'swapped = adjacent & (counter_rng.uniform(key, "swap", 1)[:, 0] < 0.5)\n'
        "        label = swapped | apart",
        TEST_RELATIONS,
        "nsp_tells_another_document",
        pitfall=6,
    ),
    Mutant(
        "SOP counts pairs of two documents as swapped, which topic alone tells",
        RELATIONS,
        'has = adjacent | (apart & (relation == "sop_released"))',
        "has = adjacent | apart",
        TEST_RELATIONS,
        "sop_of_two_documents",
    ),
    Mutant(
        "without NSP the pairs change, too: another ablation than the published one",
        RELATIONS,
        '_OTHER.get(relation, _OTHER["nsp"])',
        "_OTHER.get(relation, 0.0)",
        TEST_RELATIONS,
        "what_is_read",
    ),
    Mutant(
        "positions run on in the translation",
        "research/objectives/tlm.py",
        'group["position"] -= again',
        'group["position"] -= 0 * again',
        "tests/objectives/test_tlm.py",
        "positions_begin_again",
    ),
    Mutant(
        "every epoch has the same corruption",
        COUNTER_RNG,
        "for counter in (epoch, example):",
        "for counter in (example,):",
        "tests/data/test_counter_rng.py",
        "keys_and_roles",
    ),
    Mutant(
        "all rows of an epoch have the same corruption",
        COUNTER_RNG,
        "for counter in (epoch, example):",
        "for counter in (epoch,):",
        "tests/data/test_counter_rng.py",
        "keys_and_roles",
    ),
]
