"""Told apart from others: replaced tokens and entities, n-grams, sums of objectives."""

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
        "hidden places are drawn with replacement: seven in a hundred come twice",
        ELECTRA,
        "chosen = counter_rng.choose_subset(\n"
        '            key, "choose", ~vocab.is_special[text.token], count\n'
        "        )",
        'drawn = counter_rng.uniform(key, "choose", num_scored) * text.length[:, None]\n'
        "        drawn = np.where(np.arange(num_scored) < count[:, None], drawn, -1)\n"
        "        place = np.arange(length)\n"
        "        chosen = (np.floor(drawn)[..., None] == place).any(axis=1)\n"
        "        chosen &= ~vocab.is_special[text.token]",
        TEST_ELECTRA,
        "places_are_distinct",
        pitfall=5,
    ),
    Mutant(
        "unused slots write their samples to the first place",
        ELECTRA,
        "place = jnp.where(weight > 0, scored, token.shape[1])",
        "place = jnp.where(weight > 0, scored, scored)",
        TEST_ELECTRA,
        "writing_drops_unused_slots",
        pitfall=5,
    ),
    Mutant(
        "a lucky guess counts as replaced: the label is whether it was hidden",
        ELECTRA,
        'original = write(batch["token"], hidden, target, weight)',
        "original = write(token, hidden, -1 - target, weight)",
        TEST_ELECTRA,
        "told_where_they_differ",
        pitfall=5,
    ),
    Mutant(
        "the discriminator reads masks where samples should stand",
        ELECTRA,
        'read = batch | {"token": token}',
        "read = dict(batch)",
        TEST_ELECTRA,
        "told_where_they_differ",
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
        "samples belong to a place of the batch, so that devices change them",
        ELECTRA,
        "jax.random.fold_in(jax.random.fold_in(key, e), slot)",
        "jax.random.fold_in(jax.random.fold_in(key, 0 * e), slot)",
        TEST_ELECTRA,
        "samples_belong_to_the_example",
    ),
    Mutant(
        "the generator's text has BERT's random words",
        ELECTRA,
        "random=0.0,",
        "random=0.1,",
        TEST_ELECTRA,
        "eighty_five_in_a_hundred",
    ),
    Mutant(
        "both losses are divided by the number of hidden places",
        ELECTRA,
        "name: told._replace(coef=self.coef),",
        "name: told._replace(coef=self.coef, weight=made.weight),",
        TEST_ELECTRA,
        "told_where_they_differ",
    ),
    Mutant(
        "padding counts in the discriminator's loss",
        ELECTRA,
        'here = (batch["segment"] > 0).astype(jnp.float32)',
        'here = (batch["segment"] >= 0).astype(jnp.float32)',
        TEST_ELECTRA,
        "told_where_they_differ",
    ),
    Mutant(
        "hidden places are as many as the rate says, not as the released code has",
        ELECTRA,
        "int((self.rate + 0.005) * length)",
        "int(self.rate * length)",
        TEST_ELECTRA,
        "scored_places_are_the_published",
    ),
    Mutant(
        "the generator has as many heads as the discriminator",
        "research/models/electra.py",
        "heads=max(1, width // HEAD_WIDTH),",
        "heads=options.heads,",
        "tests/models/test_encoder_decoder_and_electra.py",
        "a_generator_is_as_deep",
    ),
    Mutant(
        "examples that are compared may be split: other negatives a micro-batch",
        INFOWORD,
        "supports_accumulation = False",
        "supports_accumulation = True",
        TEST_INFOWORD,
        "cannot_be_split",
        pitfall=12,
    ),
    Mutant(
        "n-grams of one's own document are negatives",
        CONTRASTIVE,
        "(document[:, None] != document[None]) & (weight[None] > 0) & ~own_BC",
        "(weight[None] > 0) & ~own_BC",
        TEST_INFOWORD,
        "own_document_are_no_negatives",
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
        "a row that has no negative gives a loss that is no number",
        CONTRASTIVE,
        "weight = weight * jnp.any(other_BC, axis=1)",
        "others = others + jnp.where(jnp.any(other_BC, axis=1), 0.0, jnp.nan)",
        TEST_INFOWORD,
        "without_negatives",
        pitfall=6,
    ),
    Mutant(
        "mentions side by side are both replaced",
        WKLM,
        "drawn[row, place] = able & ((number - begin) % 2 == 0)",
        "drawn[row, place] = able & (number >= begin)",
        TEST_WKLM,
        "each_mention_is_replaced",
    ),
    Mutant(
        "an entity may be replaced by itself, and counts as another",
        WKLM,
        "turn = 1 + (draw * (count[kind] - 1)).astype(np.int64)",
        "turn = (draw * count[kind]).astype(np.int64)",
        TEST_WKLM,
        "every_other_entity",
    ),
    Mutant(
        "tokens of mentions are masked",
        WKLM,
        "free[:, 1:-1] &= ~text.inside",
        "free[:, 1:-1] &= True",
        TEST_WKLM,
        "outside_of_mentions",
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
]
