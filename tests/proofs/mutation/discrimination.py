"""Mutants of replaced tokens and entities, of n-grams, and of sums of objectives."""

from tests.proofs.mutation import Mutant

ELECTRA = "research/objectives/electra.py"
INFOWORD = "research/objectives/infoword.py"
CONTRASTIVE = "research/objectives/losses/contrastive.py"
WKLM = "research/objectives/wklm.py"
JOINT = "research/objectives/joint.py"

TEST_ELECTRA = "tests/objectives/test_electra.py"
TEST_INFOWORD = "tests/objectives/test_infoword.py"
TEST_WKLM = "tests/objectives/test_wklm.py"

MUTANTS = [
    Mutant(
        "a generator whose heads do not divide its width is told to set head_width",
        "research/networks/modules/electra.py",
        '        raise UserError(\n            f"objective.generator_size is',
        "        raise error\n        raise UserError(\n"
        '            f"objective.generator_size is',
        "tests/networks/test_encoder_decoder_and_electra.py",
        "no_generator_has",
    ),
    Mutant(
        "an adaptive softmax is not refused beside a generator",
        "research/networks/transformer.py",
        'needs.stacks not in ("one", "two_directions"):',
        'needs.stacks == "encoder_decoder":',
        "tests/networks/test_needs.py",
        "transformers_keys",
    ),
    Mutant(
        "the draw that replaces a mention masks a token",
        WKLM,
        '(key, "replaced mentions", scored',
        '(key, "replace", scored',
        TEST_WKLM,
        "says_nothing",
    ),
    Mutant(
        "two samples at one position are added",
        ELECTRA,
        "total // jnp.maximum(count, 1)",
        "total",
        TEST_ELECTRA,
        "floor_of_the_mean",
    ),
    Mutant(
        "the layers for which ELECTRA's code names no initial values have BERT's",
        "research/networks/layers/dense.py",
        'if options.init == "electra" and self.unspecified:',
        'if options.init == "electra" and self.residual:',
        "tests/networks/test_initial_values.py",
        "electra_has_glorot",
    ),
    Mutant(
        "masked positions are drawn with replacement: 7 % are drawn twice",
        "research/objectives/corruption/masking.py",
        'chosen = counter_rng.choose_subset(key, "choose", candidate, count)',
        'drawn = counter_rng.uniform(key, "choose", max_count) * num_tokens[:, None]\n'
        "    drawn = np.where(np.arange(max_count) < count[:, None], drawn, -1)\n"
        "    position = np.arange(token.shape[1])\n"
        "    chosen = (np.floor(drawn)[..., None] == position).any(axis=1)\n"
        "    chosen &= candidate",
        TEST_ELECTRA,
        "positions_are_distinct",
        pitfall=5,
    ),
    Mutant(
        "unused slots write their samples to the first position",
        ELECTRA,
        "position = jnp.where(weight > 0, scored, token.shape[1])",
        "position = jnp.where(weight > 0, scored, scored)",
        TEST_ELECTRA,
        "writing_drops_unused_slots",
        pitfall=5,
    ),
    Mutant(
        "a sample that equals the original counts as replaced",
        ELECTRA,
        'original = write(batch["token"], masked, target, weight)',
        "original = write(token, masked, -1 - target, weight)",
        TEST_ELECTRA,
        "labels_where_they_differ",
        pitfall=5,
    ),
    Mutant(
        "the discriminator reads masks in place of samples",
        ELECTRA,
        'corrupted = batch | {"token": token}',
        "corrupted = dict(batch)",
        TEST_ELECTRA,
        "labels_where_they_differ",
        pitfall=5,
    ),
    Mutant(
        "the sample is the likeliest token",
        ELECTRA,
        "return block * BLOCK + jax.random.categorical(inner, blocks[block])",
        "return jnp.argmax(logits_V) + 0 * block",
        TEST_ELECTRA,
        "samples_follow_the_generator",
        pitfall=5,
    ),
    Mutant(
        "samples depend on the row of the batch, so that devices change them",
        ELECTRA,
        "jax.random.fold_in(jax.random.fold_in(key, e), slot)",
        "jax.random.fold_in(jax.random.fold_in(key, 0 * e), slot)",
        TEST_ELECTRA,
        "samples_depend_on_the_example",
    ),
    Mutant(
        "the generator's input has BERT's random tokens",
        ELECTRA,
        "mask = partial(mask_random_tokens, random_fraction=0.0)",
        "mask = partial(mask_random_tokens, random_fraction=0.1)",
        TEST_ELECTRA,
        "eighty_five_per_cent",
    ),
    Mutant(
        "both losses are divided by the number of masked positions",
        ELECTRA,
        "terms |= with_accuracy(name, term, right, coef=self.coef)",
        "term = term._replace(weight=generator.weight)\n"
        "        terms |= with_accuracy(name, term, right, coef=self.coef)",
        TEST_ELECTRA,
        "labels_where_they_differ",
    ),
    Mutant(
        "padding counts in the discriminator's loss",
        ELECTRA,
        'here = (batch["segment"] > 0).astype(jnp.float32)',
        'here = (batch["segment"] >= 0).astype(jnp.float32)',
        TEST_ELECTRA,
        "labels_where_they_differ",
    ),
    Mutant(
        "the number of masked positions is not that of the released code",
        ELECTRA,
        "int((self.rate + 0.005) * length)",
        "int(self.rate * length)",
        TEST_ELECTRA,
        "the_number_of_scored_positions",
    ),
    Mutant(
        "the generator has as many heads as the discriminator",
        "research/networks/modules/electra.py",
        "heads=_num_heads(width),",
        "heads=options.heads,",
        "tests/networks/test_encoder_decoder_and_electra.py",
        "a_generator_is_as_deep",
    ),
    Mutant(
        "batches of contrastive examples are split, which changes their negatives",
        INFOWORD,
        "supports_accumulation = False",
        "supports_accumulation = True",
        TEST_INFOWORD,
        "cannot_be_split",
        pitfall=12,
    ),
    Mutant(
        "n-grams of the same document are negatives",
        CONTRASTIVE,
        "(document[:, None] != document[None]) & (weight[None] > 0) & ~own_BC",
        "(weight[None] > 0) & ~own_BC",
        TEST_INFOWORD,
        "same_document_are_no_negatives",
        pitfall=12,
    ),
    Mutant(
        "empty rows are negatives",
        CONTRASTIVE,
        "(document[:, None] != document[None]) & (weight[None] > 0) & ~own_BC",
        "(document[:, None] != document[None]) & ~own_BC",
        TEST_INFOWORD,
        "dense_definition",
        pitfall=12,
    ),
    Mutant(
        "the loss of a row without negatives is NaN",
        CONTRASTIVE,
        "weight = weight * jnp.any(other_BC, axis=1)",
        "others = others + jnp.where(jnp.any(other_BC, axis=1), 0.0, jnp.nan)",
        TEST_INFOWORD,
        "without_negatives",
        pitfall=6,
    ),
    Mutant(
        "consecutive mentions are both replaced",
        WKLM,
        "chosen[row, position] = eligible & ((number - begin) % 2 == 0)",
        "chosen[row, position] = eligible & (number >= begin)",
        TEST_WKLM,
        "each_mention_is_replaced",
    ),
    Mutant(
        "an entity may be replaced by itself, and counts as another",
        WKLM,
        "shift = 1 + (draw * (count[entry_type] - 1)).astype(np.int64)",
        "shift = (draw * count[entry_type]).astype(np.int64)",
        TEST_WKLM,
        "every_other_entity",
    ),
    Mutant(
        "tokens of mentions are masked",
        WKLM,
        "free[:, 1:-1] &= ~inside",
        "free[:, 1:-1] &= True",
        TEST_WKLM,
        "outside_mentions",
    ),
    Mutant(
        "in a sum a part forgets the coefficients of its own terms",
        JOINT,
        "value._replace(coef=weight * value.coef)",
        "value._replace(coef=weight)",
        "tests/objectives/test_joint.py",
        "terms_and_gradients_are",
        pitfall=13,
    ),
    Mutant(
        "each part of a joint objective hides other tokens",
        JOINT,
        "arrays = composite.corrupt_part(part, example, base, key, vocab, length)",
        "other = key + np.uint64(len(batch))\n"
        "            arrays = composite.corrupt_part(\n"
        "                part, example, base, other, vocab, length)",
        "tests/objectives/test_joint.py",
        "each_part_is_corrupted",
    ),
    Mutant(
        "ELECTRA's first segment ends before its first long sentence",
        "research/objectives/inputs/sentence_pairs.py",
        "taken = (first == 0) | (first + tokens < goal)",
        "taken = (first == 0) | ((second == 0) & (first + tokens < goal))",
        "tests/objectives/inputs/test_sentence_pairs.py",
        "segments_equal_those_of_electras_script",
    ),
    Mutant(
        "the sentence that exceeds ELECTRA's first segment is never its own",
        "research/objectives/inputs/sentence_pairs.py",
        "taken |= (second == 0) & (first < goal) & exceeds",
        "taken |= (second == 0) & (first < 0) & exceeds",
        "tests/objectives/inputs/test_sentence_pairs.py",
        "segments_equal_those_of_electras_script",
    ),
    Mutant(
        "ELECTRA's first segment aims at any length",
        "research/data/units/halves.py",
        "np.where(one, total, np.minimum(half, total - 1))",
        "np.where(one, total, np.maximum(total // 3, 1))",
        "tests/data/units/test_packing.py",
        "equal_those_of_electras_script",
    ),
    Mutant(
        "WKLM's masks in mentions are drawn again outside them",
        WKLM,
        'if self.masks == "outside":\n            candidate = free',
        "if True:\n            candidate = free",
        TEST_WKLM,
        "those_in_mentions_are_dropped",
    ),
    Mutant(
        "WKLM's two values read the last block's states",
        WKLM,
        "before, after = (net.readout(side)[0] for side in (before, after))",
        "before, after = (side + 0 for side in (before, after))",
        TEST_WKLM,
        "two_values",
    ),
]
