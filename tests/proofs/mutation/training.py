"""The loop and its data: one division, orders and rows, evaluations, checkpoints."""

from tests.proofs.mutation import Mutant

STEP = "research/step.py"
ORDER = "research/data/loading/permutation.py"
CONTIGUOUS = "research/data/loading/contiguous_order.py"
SCHEDULE = "research/data/loading/mixture_schedule.py"
PAIR = "research/data/units/pair.py"
INDEX = "research/data/store/example_index.py"
TEXT_SOURCE = "research/data/loading/text_source.py"
PIPELINE = "research/data/pipeline.py"
CHECKPOINT = "research/checkpoints/checkpoint.py"

TEST_STEP = "tests/test_step.py"
TEST_ORDER = "tests/data/loading/test_permutation.py"
TEST_CONTIGUOUS = "tests/data/loading/test_contiguous_order.py"
TEST_SCHEDULE = "tests/data/loading/test_mixture_schedule.py"
TEST_PACKING = "tests/data/units/test_packing.py"
TEST_TEXT_SOURCE = "tests/data/loading/test_text_source.py"
TEST_PIPELINE = "tests/data/test_pipeline.py"
TEST_CHECKPOINT = "tests/checkpoints/test_checkpoint.py"

MUTANTS = [
    Mutant(
        "a run that is started again has all its minutes again",
        "research/train.py",
        "        self._end_if_time_is_up()\n        batches = ",
        "        batches = ",
        "tests/test_train.py",
        "minutes_are_used",
    ),
    Mutant(
        "a run that ends by its minutes has the rate of a later step",
        "research/train.py",
        "        if inside and step < train.steps:  # the last one, where time is up\n",
        "        if False:\n",
        "tests/test_train.py",
        "minutes_are_used",
    ),
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
        "key = jax.random.fold_in(jax.random.wrap_key_data(key_data), state.step)",
        "key = jax.random.fold_in(jax.random.wrap_key_data(key_data), 0 * state.step)",
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
        "sums = jax.tree.map(jnp.add, sums, term_sums(terms))",
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
        "the last batch of an evaluation is padded with rows that are scored again",
        PIPELINE,
        "rest = self.source.empty_rows(missing)",
        "rest = {k: np.repeat(v[:1], missing, 0) for k, v in chunk.items()}",
        TEST_PIPELINE,
        "evaluation_reads_each_example_once",
        pitfall=14,
    ),
    Mutant(
        "the corruption of an evaluation depends on the run's seed",
        TEXT_SOURCE,
        "seed=EVALUATION_SEED,",
        "seed=self.seed,",
        TEST_PIPELINE,
        "evaluation_does_not_depend",
        pitfall=14,
    ),
    Mutant(
        "each host counts its own rows, so that the number of hosts changes the text",
        PIPELINE,
        "first = step * self.batch_size\n",
        "first = step * len(self._row_numbers(rows))\n",
        TEST_PIPELINE,
        "rows_of_the_hosts",
        pitfall=18,
    ),
    Mutant(
        "a resumed run reads its data from the beginning",
        "research/train.py",
        "batches = steps_and_batches(self.phases, self.steps_done)",
        "batches = steps_and_batches(self.phases, 0)",
        "tests/test_train.py",
        "resumed_equals_uninterrupted",
        pitfall=18,
    ),
    Mutant(
        "a phase reads its batches from its own start, so that a resumed one rereads",
        "research/run/compiled_phases.py",
        "train_batches(phase.program, start, phase.stop)",
        "train_batches(phase.program, 0, phase.stop)",
        "tests/run/test_compiled_phases.py",
        "each_phase_reads",
        pitfall=18,
    ),
    Mutant(
        "the network is traced again for its initial values",
        "research/run/setup.py",
        "return jax.jit(init)",
        "return init",
        "tests/run/test_setup.py",
        "one_trace_gives",
    ),
    Mutant(
        "all phases have the length of the last",
        "research/run/compiled_phases.py",
        "program if own is config else build_program(own, devices)",
        "program",
        "tests/run/test_compiled_phases.py",
        "each_phase_reads",
    ),
    Mutant(
        "a curve over FLOPs has the mean of all phases in each",
        "launch/reports/run_costs.py",
        'return result["flops_to"]',
        'return result["flops_to"][-1:]',
        "tests/launch/test_curves.py",
        "own_flops",
    ),
    Mutant(
        "an earlier run with phases is drawn by the mean of their FLOPs",
        "launch/reports/run_costs.py",
        "if any(end < 1 for end, _ in",
        "if any(end < 0 for end, _ in",
        "tests/launch/test_curves.py",
        "earlier_run_with_phases",
    ),
    Mutant(
        "a result has the FLOPs of each phase alone as those up to its end",
        "research/run/compiled_phases.py",
        "itertools.accumulate(flops)",
        "flops",
        "tests/run/test_compiled_phases.py",
        "resumes_in_any",
    ),
    Mutant(
        "the tokens of all steps are counted at the last length",
        "research/run/compiled_phases.py",
        "num_steps * phase.config.train.batch * phase.config.data.length",
        "num_steps * phase.config.train.batch * phases[-1].config.data.length",
        "tests/run/test_compiled_phases.py",
        "resumes_in_any_of_its_phases",
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
        "research/files/checksums.py",
        "digest == known[name][1]",
        "size == known[name][0]",
        TEST_CHECKPOINT,
        "damage_to_any_file",
        pitfall=18,
    ),
    Mutant(
        "results past the end are taken modulo the size: some examples come twice",
        ORDER,
        "again = example[outside] = feistel(example[outside])",
        "again = example[outside] = example[outside] % num",
        TEST_ORDER,
        "order_is_a_permutation",
    ),
    Mutant(
        "every epoch has the same order",
        ORDER,
        "key = _hash(epoch ^ _hash(",
        "key = _hash(0 * epoch ^ _hash(",
        TEST_ORDER,
        "uncorrelated_orders",
    ),
    Mutant(
        "a mixture restarts each corpus with each period of its schedule",
        SCHEDULE,
        "own_run = period * self.count[corpus] + self.earlier[entry]",
        "own_run = period * 0 + self.earlier[entry]",
        TEST_SCHEDULE,
        "each_corpus_is_read_in_order",
    ),
    Mutant(
        "the sampling rates ignore alpha",
        "research/data/corpora/corpus.py",
        "weight = np.array(sizes, float) ** alpha",
        "weight = np.array(sizes, float)",
        TEST_SCHEDULE,
        "alpha_raises_the_rates",
    ),
    Mutant(
        "rows take examples in turn: none continues where it ended",
        CONTIGUOUS,
        "return epoch, row * steps + nth + epoch % 2 * (num - num_rows * steps)",
        "return epoch, nth * num_rows + row + epoch % 2 * (num - num_rows * steps)",
        TEST_CONTIGUOUS,
        "walks_through_an_equal_part",
    ),
    Mutant(
        "masks are static, though dupe_factor is 0",
        TEXT_SOURCE,
        "key_epoch = epoch % self.dupe_factor if self.dupe_factor else epoch",
        "key_epoch = epoch % self.dupe_factor if self.dupe_factor else 0 * epoch",
        TEST_PIPELINE,
        "corruption_is_new",
    ),
    Mutant(
        "static masks belong to a position of the shuffled order, not to an example",
        TEXT_SOURCE,
        "key = self._row_key(corpus, row, epoch, seed)\n        return self._corrupt",
        "key = self._row_key(corpus, position, epoch, seed)\n"
        "        return self._corrupt",
        TEST_TEXT_SOURCE,
        "corruption_repeats",
    ),
    Mutant(
        "negatives are of the same document",
        PAIR,
        "elsewhere += elsewhere >= document",
        "elsewhere = 0 * elsewhere + document",
        "tests/data/units/test_packing_statistics.py",
        "state_the_relation_of_the_second_span",
        pitfall=6,
    ),
    Mutant(
        "the text after A of a negative pair is skipped",
        PAIR,
        '"next_begin": np.where(label == NEXT, stop, middle),',
        '"next_begin": np.where(label == NEXT, stop, stop),',
        TEST_PACKING,
        "equal_those_of_berts_script",
    ),
    Mutant(
        "truncation never takes from the front of the first span",
        "research/data/units/packing/pairs.py",
        'start=rows["start"] + _heads(key, "first", lost_one),',
        'start=rows["start"],',
        "tests/data/units/test_packing_statistics.py",
        "takes_from_both_ends",
    ),
    Mutant(
        "all rows of a document are short where ELECTRA's are one by one",
        "research/data/units/halves.py",
        "target = draw_targets(key, self.short_rate, MIN_TARGET, length)",
        "all_key = counter_rng.row_key(0, document, 0 * document)\n"
        "        target = draw_targets(all_key, self.short_rate, MIN_TARGET, length)",
        TEST_PACKING,
        "equal_those_of_electras_script",
    ),
    Mutant(
        "all copies of a text have the same pairs: each negative recurs 40 times",
        "research/data/loading/build.py",
        "spec.replace(copy=copy)",
        "spec.replace(copy=0 * copy)",
        "tests/data/loading/test_build.py",
        "anew_for_each_copy",
    ),
    Mutant(
        "BERT's ten copies are packed once",
        "experiments/bert.py",
        'pairs="each_copy"',
        'pairs="once"',
        "tests/fidelity/test_facts.py",
        "readings and bert",
    ),
    Mutant(
        "the number of a row counts the copies that were made, not all",
        "research/data/store/copies.py",
        "ends = self._ends_to(lambda ends: len(ends) > last or len(ends) == self.num)",
        "ends = self._ends_to(lambda ends: len(ends) > copy.max(initial=0))",
        "tests/data/store/test_copies.py",
        "whatever_was_asked_before",
    ),
    Mutant(
        "windows cross the end of a shard",
        "research/data/units/stream.py",
        'end = shard[np.searchsorted(shard, start, side="right")]',
        "end = shard[-1]",
        "tests/data/store/test_example_index.py",
        "windows_count_skipped_and_repeated",
    ),
    Mutant(
        "the cache key of an index lacks the stride",
        INDEX,
        'text_spec.index_fields() | {"stride": stride}',
        'text_spec.index_fields() | {"stride": 0}',
        "tests/data/store/test_example_index.py",
        "its_key_holds_every_argument",
    ),
]
