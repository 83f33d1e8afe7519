"""The loop and its data: one division, orders and rows, evaluations, checkpoints."""

from tests.proofs.mutation import Mutant

STEP = "research/step.py"
ORDER = "research/data/loading/permutation.py"
PACKING = "research/data/store/packing.py"
INDEX = "research/data/store/example_index.py"
EXAMPLES = "research/data/loading/examples.py"
PIPELINE = "research/data/pipeline.py"
CHECKPOINT = "research/checkpoints/checkpoint.py"

TEST_STEP = "tests/test_step.py"
TEST_ORDER = "tests/data/loading/test_permutation.py"
TEST_PACKING = "tests/data/store/test_packing.py"
TEST_EXAMPLES = "tests/data/loading/test_examples.py"
TEST_PIPELINE = "tests/data/test_pipeline.py"
TEST_CHECKPOINT = "tests/checkpoints/test_checkpoint.py"

MUTANTS = [
    Mutant(
        "a term of weight 0 has a gradient of NaN",
        STEP,
        "mean = total / xp.where(weight > 0, weight, 1.0)",
        "mean = total / weight",
        TEST_STEP,
        "term_of_weight_0",
        pitfall=6,
    ),
    Mutant(
        "the mean of micro-batches' means",
        STEP,
        "more, aux = grad_fn(params, part, part_key, weights)",
        "more, aux = grad_fn(params, part, part_key)\n"
        "        more = jax.tree.map(lambda leaf: leaf / accumulate, more)",
        TEST_STEP,
        "micro_batches_of_any_weights",
        pitfall=11,
    ),
    Mutant(
        "all terms are divided by the largest weight",
        STEP,
        "_mean(term.total, weights[name], xp)",
        "_mean(term.total, xp.max(xp.stack([*weights.values()])), xp)",
        TEST_STEP,
        "micro_batches_of_any_weights or means_over_the_whole",
        pitfall=11,
    ),
    Mutant(
        "all micro-batches have the same dropout mask",
        STEP,
        "else jax.random.fold_in(dropout_key, index)",
        "else jax.random.fold_in(dropout_key, 0 * index)",
        TEST_STEP,
        "its_own_dropout",
    ),
    Mutant(
        "every step draws the same samples",
        STEP,
        "key = jax.random.fold_in(jax.random.key(seed), state.step)",
        "key = jax.random.fold_in(jax.random.key(seed), 0 * state.step)",
        TEST_STEP,
        "its_own_samples",
    ),
    Mutant(
        "logged metrics are means over all steps since the start",
        STEP,
        "keep = jnp.where(state.step % log_every == 0, 0.0, 1.0)",
        "keep = jnp.where(state.step % log_every == 0, 1.0, 1.0)",
        TEST_STEP,
        "since_the_last_logged",
    ),
    Mutant(
        "an evaluation is the mean of the batches' means, whatever their weights",
        STEP,
        "return jax.tree.map(jnp.add, sums, term_sums(terms)), carry",
        "means = {\n"
        "            name: Term(t.total / t.weight, t.weight / t.weight, t.coef)\n"
        "            for name, t in terms.items()\n"
        "        }\n"
        "        return jax.tree.map(jnp.add, sums, term_sums(means)), carry",
        TEST_STEP,
        "an_evaluation_does_not",
        pitfall=14,
    ),
    Mutant(
        "the last batch of an evaluation is filled up with rows that count again",
        PIPELINE,
        "rest = self.source.empty(missing)",
        "rest = {k: np.repeat(v[:1], missing, 0) for k, v in chunk.items()}",
        TEST_PIPELINE,
        "evaluation_reads_each_example_once",
        pitfall=14,
    ),
    Mutant(
        "an evaluation has the noise of the run's seed",
        EXAMPLES,
        "step, seed=EVALUATION_SEED, shuffle=False)",
        "step, seed=self.seed, shuffle=False)",
        TEST_PIPELINE,
        "evaluation_does_not_depend",
        pitfall=14,
    ),
    Mutant(
        "each host reads on by its own rows, so that their number changes the text",
        PIPELINE,
        "return self.rows(step * self.size + self._numbers(rows))",
        "numbers = self._numbers(rows)\n"
        "        return self.rows(step * len(numbers) + numbers)",
        TEST_PIPELINE,
        "shares_of_the_hosts",
        pitfall=18,
    ),
    Mutant(
        "a resumed run reads its data from the beginning",
        "research/train.py",
        "batches = train_batches(self.program, self.steps_done, num_steps)",
        "batches = train_batches(self.program, 0, num_steps)",
        "tests/test_train.py",
        "resumed_equals_uninterrupted",
        pitfall=18,
    ),
    Mutant(
        "the newest checkpoint is restored though it is damaged",
        CHECKPOINT,
        "damage = checksums.find_damage(folder)",
        'damage = ""',
        TEST_CHECKPOINT,
        "the_one_before_a_damaged",
        pitfall=18,
    ),
    Mutant(
        "the unfinished checkpoint of a killed run is not deleted",
        CHECKPOINT,
        "if TEMPORARY in path.name or path.name.endswith(DELETED):",
        "if path.name.endswith(DELETED):",
        TEST_CHECKPOINT,
        "unfinished_ones_are_never",
        pitfall=18,
    ),
    Mutant(
        "only the sizes of a checkpoint's files are checked",
        "research/checkpoints/checksums.py",
        "digest == known[name][1]",
        "size == known[name][0]",
        TEST_CHECKPOINT,
        "damage_to_any_file",
        pitfall=18,
    ),
    Mutant(
        "places past the end come in again at the beginning: some rows twice",
        ORDER,
        "row[outside] = walk(row[outside], key[outside])",
        "row[outside] = row[outside] % np.uint64(num)",
        TEST_ORDER,
        "order_is_a_permutation",
    ),
    Mutant(
        "every epoch has the same order",
        ORDER,
        "key = _hash(epoch ^ _hash(",
        "key = _hash(0 * epoch ^ _hash(",
        TEST_ORDER,
        "orders_of_their_own",
    ),
    Mutant(
        "a mixture begins each corpus anew with each turn of its table",
        ORDER,
        "return corpus, turn * self.count[corpus] + self.before[entry]",
        "return corpus, turn * 0 + self.before[entry]",
        TEST_ORDER,
        "read_on_from_where_it_was",
    ),
    Mutant(
        "alpha is told and not used",
        ORDER,
        "weight = np.array(sizes, float) ** alpha",
        "weight = np.array(sizes, float)",
        TEST_ORDER,
        "an_alpha_brings",
    ),
    Mutant(
        "streams are windows in turn: nothing goes on where a row ended",
        ORDER,
        "return epoch, row * steps + nth + epoch % 2 * (num - rows * steps)",
        "return epoch, nth * rows + row + epoch % 2 * (num - rows * steps)",
        TEST_EXAMPLES,
        "follow_is_a_walk",
    ),
    Mutant(
        "masks are static, though none was asked for",
        EXAMPLES,
        "noisy = epoch % self.dupe_factor if self.dupe_factor else epoch",
        "noisy = epoch % self.dupe_factor if self.dupe_factor else 0 * epoch",
        TEST_PIPELINE,
        "noise_is_new",
    ),
    Mutant(
        "static masks belong to a place of the order, and move with it",
        EXAMPLES,
        "key = counter_rng.row_key(seed, noisy, self._first[corpus] + row)",
        "key = counter_rng.row_key(seed, noisy, self._first[corpus] + place)",
        TEST_EXAMPLES,
        "copies_of_the_noise",
    ),
    Mutant(
        "negatives are of the same document",
        PACKING,
        "elsewhere += elsewhere >= document",
        "elsewhere = 0 * elsewhere + document",
        TEST_PACKING,
        "how_the_second_span_stands",
        pitfall=6,
    ),
    Mutant(
        "what a negative leaves unread is lost",
        PACKING,
        '"goes on": np.where(label == NEXT, stop, middle),',
        '"goes on": np.where(label == NEXT, stop, stop),',
        TEST_PACKING,
        "those_of_the_written_script",
    ),
    Mutant(
        "long pairs always lose their ends",
        PACKING,
        'start=rows["start"] + _heads(key, "first", lost_one),',
        'start=rows["start"],',
        TEST_PACKING,
        "takes_from_both_ends",
    ),
    Mutant(
        "windows run over the edge of a shard",
        INDEX,
        'end = shard[np.searchsorted(shard, start, side="right")]',
        "end = shard[-1]",
        "tests/data/store/test_example_index.py",
        "windows_read_what_they_say",
    ),
    Mutant(
        "a cache that does not know the stride it was made with",
        INDEX,
        '"stride": stride,',
        '"stride": 0,',
        "tests/data/store/test_example_index.py",
        "cache_is_read_and_told_apart",
    ),
]
