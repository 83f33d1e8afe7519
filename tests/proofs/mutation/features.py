"""Mutants of features: states of several layers, and a body that does not learn."""

from tests.proofs.mutation import Mutant

FEATURES = "research/networks/layers/features.py"
TEST_FEATURES = "tests/networks/layers/test_features.py"

MUTANTS = [
    Mutant(
        "a task's rows read other vectors than the CoVe that they start from",
        "experiments/sweeps/features.py",
        "if len(files := {each[VECTORS[0]] for each in found}) > 1:",
        "if len(files := {each[VECTORS[0]] for each in found}) > 2:",
        "tests/test_sweeps.py",
        "vectors_of_all_tasks",
    ),
    Mutant(
        "the weights of a mix of layers do not add up to 1",
        FEATURES,
        "weight_N = scale * jax.nn.softmax(layers_N)",
        "weight_N = scale * jnp.exp(layers_N)",
        TEST_FEATURES,
        "elmos_sum",
    ),
    Mutant(
        "embeddings are among the joined blocks",
        FEATURES,
        "blocks = [*inputs_NBLD[1:], x_BLD]",
        "blocks = [*inputs_NBLD, x_BLD]",
        TEST_FEATURES,
        "last_four_blocks",
    ),
    Mutant(
        "the backward LSTM begins in the padding",
        FEATURES,
        "both = [lstm(x, seq_lengths=size_B) for lstm in (forward, backward)]",
        "both = [lstm(x) for lstm in (forward, backward)]",
        TEST_FEATURES,
        "no_padding",
    ),
    Mutant(
        "a gradient is computed for the frozen body",
        "research/run/setup.py",
        "stop_frozen=partial(stop_frozen, parts=config.optimizer.frozen),",
        "stop_frozen=lambda params: params,",
        "tests/run/test_setup.py",
        "frozen_body",
    ),
    Mutant(
        "a classifier of texts reads the last states, whatever its features are",
        "research/objectives/sequence_classification.py",
        "states, segment = net.features(group, scored=scored)",
        "states, segment = net.states(group, scored=scored)",
        "tests/objectives/test_sequence_classification.py",
        "squared_error_of_scaled",
    ),
    Mutant(
        "a task's own learning rate is lost in a sweep",
        "launch/sweeps/finetuning.py",
        "if RATE in chosen:",
        "if False:",
        "tests/test_tables.py",
        "by_features",
    ),
    Mutant(
        "an empty file gives 0 vectors",
        "launch/embed.py",
        "    if not texts:\n",
        "    if False:\n",
        "tests/launch/test_embed.py",
        "mistake_gives_one_line",
    ),
    Mutant(
        "one row that is left out is told as if it were several",
        "research/data/formats/__init__.py",
        "        if self.count == 1:\n",
        "        if False:\n",
        "tests/data/corpora/test_task_files.py",
        "a_header_that_is_read_as_a_row",
    ),
    Mutant(
        "the classes of a task are not told, a mistyped one neither",
        "research/run/compiled_phases.py",
        "    if labels := label_names(program):\n",
        "    if labels := []:\n",
        "tests/run/test_compiled_phases.py",
        "steps_of_several_lengths",
    ),
]
