"""Mutants of cross-view training: students, teacher, layers that join directions."""

from tests.proofs.mutation import Mutant

CVT = "research/objectives/tasks/cvt.py"
LSTM = "research/networks/recurrent/lstm_stack.py"
TEST = "tests/objectives/test_cvt.py"
TEST_LAYERS = "tests/networks/test_joined_layers.py"

MUTANTS = [
    Mutant(
        "layers that join directions read without dropout between layers",
        "research/networks/recurrent/two_lstms.py",
        'read = drop(self, x.raw, "hidden")',
        "read = x.raw",
        TEST_LAYERS,
        "each_dropout_of_a_layer",
    ),
    Mutant(
        "layers that join directions read states with dropout of the output",
        "research/networks/recurrent/two_lstms.py",
        'read = drop(self, x.raw, "hidden")',
        'read = drop(self, x.states, "hidden")',
        TEST_LAYERS,
        "each_dropout_of_a_layer",
    ),
    Mutant(
        "layers that join directions have no dropout of recurrent kernels",
        LSTM,
        "        (params,) = Blocks(own, 1, x_BLR.shape[-1], width, name=name)()\n"
        "        params = drop_weights(self, params)\n",
        "        (params,) = Blocks(own, 1, x_BLR.shape[-1], width, name=name)()\n",
        TEST_LAYERS,
        "each_dropout_of_a_layer",
    ),
    Mutant(
        "the student of the next word has read it",
        CVT,
        '"future": forward,',
        '"future": backward,',
        TEST,
        "direction_alone",
    ),
    Mutant(
        "the student of the future is asked of its own word",
        CVT,
        '"future": (next_BLN, next_weight_BL * (begun_BL >= 0))',
        '"future": (teacher_BLN, next_weight_BL * (begun_BL >= 0))',
        TEST,
        "asked_of",
    ),
    Mutant(
        "the student of the past is asked of the piece before its word",
        CVT,
        "teacher_BLN, jnp.maximum(before_BL, 0)[..., None], axis=1",
        "teacher_BLN, jnp.maximum(before_BL * 0 + position - 1, 0)[..., None], axis=1",
        TEST,
        "asked_of",
    ),
    Mutant(
        "the future of the mark before a text is its first word",
        CVT,
        "next_weight_BL * (begun_BL >= 0)",
        "next_weight_BL",
        TEST,
        "asked_of",
    ),
    Mutant(
        "the teacher learns from its students",
        CVT,
        "teacher_BLN = jax.lax.stop_gradient(teacher_BLN)",
        "pass",
        TEST,
        "takes_no_gradient",
    ),
    Mutant(
        "the teacher has dropout",
        CVT,
        "if networks.dropout_key(net) is not None:",
        "if False:",
        TEST,
        "teacher",
    ),
    Mutant(
        "texts without tags are read in training as all others are",
        CVT,
        "(is_word & ~has_tags).astype(np.float32)",
        "is_word.astype(np.float32)",
        TEST,
        "that_students_read",
    ),
    Mutant(
        "other texts lose their tags in each epoch",
        CVT,
        "is_read = number >>",
        "is_read = key >>",
        TEST,
        "all_epochs",
    ),
    Mutant(
        "tags of evaluations are smoothed",
        CVT,
        "self, label_smoothing=0.0, consistency=0.0",
        "self, consistency=0.0",
        TEST,
        "smoothed",
    ),
    Mutant(
        "a layer that joins directions reads the text before it",
        LSTM,
        "steps, _ = find_steps(segment_BL, jnp.zeros((rows,), jnp.int32))",
        "steps, _ = find_steps(jnp.minimum(segment_BL, 1), jnp.zeros((rows,), int))",
        TEST_LAYERS,
        "packed",
    ),
    Mutant(
        "layers that join directions have no dropout",
        LSTM,
        'return Undropped(drop(self, y, "output"), y)',
        "return Undropped(y, y)",
        TEST_LAYERS,
        "dropout",
    ),
    Mutant(
        "the rate falls by the step, not by its root",
        "research/optimize/schedules/inverse.py",
        "after = jnp.power(after.astype(jnp.float32), self.step_power)",
        "pass",
        "tests/program/test_schedules.py",
        "rate_of_cvt",
    ),
]
