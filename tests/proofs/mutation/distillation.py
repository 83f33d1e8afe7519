"""Distillation and pruning: what is compared, its scale, and which masks stay."""

from tests.proofs.mutation import Mutant

LOSSES = "research/objectives/losses/distillation.py"
DISTILL = "research/objectives/distill.py"
PRUNING = "research/pruning.py"
RESTORE = "research/checkpoints/partial_restore.py"
THESEUS = "research/objectives/theseus.py"
TEST_THESEUS = "tests/objectives/test_theseus.py"
TEST_LOSSES = "tests/objectives/losses/test_distillation.py"
TEST_DISTILL = "tests/objectives/test_distill.py"
TEST_PRUNING = "tests/test_pruning.py"
TEST_NETWORK = "tests/networks/test_projections.py"

MUTANTS = [
    Mutant(
        "labels of which a text has several exclude each other",
        DISTILL,
        'independent=self._base.predicts == "set"',
        "independent=False",
        TEST_DISTILL,
        "any_number",
    ),
    Mutant(
        "a number is distilled as if it were a class",
        DISTILL,
        'is_class = self._base.predicts != "number"',
        "is_class = True",
        TEST_DISTILL,
        "no_classes",
    ),
    Mutant(
        "a mixture learns from the teacher of its first part",
        "research/objectives/mix.py",
        "if other != specs:",
        "if False:",
        "tests/objectives/test_mix.py",
        "one_teacher",
    ),
    Mutant(
        "members of the parts of a mixture have several losses",
        "research/objectives/mix.py",
        "if isinstance(objective, composite.Composite):",
        "if False:",
        "tests/objectives/test_mix.py",
        "of_its_members",
    ),
    Mutant(
        "all layers of a module that is replaced run",
        THESEUS,
        "is_first | ~from_student",
        "is_first | True",
        TEST_THESEUS,
        "what_runs or each_draw",
    ),
    Mutant(
        "modules are replaced together",
        THESEUS,
        'self.rate(batch["step"]), (net.options.layers,)',
        'self.rate(batch["step"]), (1,)',
        TEST_THESEUS,
        "each_draw",
    ),
    Mutant(
        "the rate of replacement is that of the first step",
        THESEUS,
        "piecewise_linear(self.replacing_rate, jnp.max(step))",
        "piecewise_linear(self.replacing_rate, 0 * jnp.max(step))",
        TEST_THESEUS,
        "each_draw or the_rate",
    ),
    Mutant(
        "evaluations are of the teacher's network with some layers of the student",
        THESEUS,
        "return self._base.for_evaluation()",
        "return self",
        TEST_THESEUS,
        "evaluations",
    ),
    Mutant(
        "the divergence at a temperature is not scaled by its square",
        LOSSES,
        "return temperature**2 * jnp.sum(each, axis=-1)",
        "return jnp.sum(each, axis=-1)",
        TEST_LOSSES,
        "three_classes",
    ),
    Mutant(
        "the divergence is that of the teacher from the student",
        LOSSES,
        "each = jnp.exp(log_p_T) * (log_p_T - log_p_S)",
        "each = jnp.exp(log_p_S) * (log_p_S - log_p_T)",
        TEST_LOSSES,
        "three_classes",
    ),
    Mutant(
        "the gradient of the divergence of tokens lacks the temperature",
        LOSSES,
        "factor_BC = temperature * weight_BC",
        "factor_BC = weight_BC",
        TEST_LOSSES,
        "divergence_of_tokens",
    ),
    Mutant(
        "mean squared errors count positions, not elements",
        LOSSES,
        "return Term(total / states_S.shape[-1], jnp.sum(weight))",
        "return Term(total, jnp.sum(weight))",
        TEST_LOSSES,
        "squared_errors",
    ),
    Mutant(
        "attention logits of padding are compared",
        LOSSES,
        "return jnp.sum(jnp.where(mask_BLM[:, None], squared_BHLM, 0.0))",
        "return jnp.sum(squared_BHLM)",
        TEST_LOSSES,
        "errors_of_attention_logits",
    ),
    Mutant(
        "relations are scaled by the width of all heads together",
        LOSSES,
        "    width = joined.shape[-1]\n",
        "    width = joined.shape[-1] * heads\n",
        TEST_LOSSES,
        "relations_of_joined_heads",
    ),
    Mutant(
        "padding has relations",
        LOSSES,
        "    hide = partial(jnp.where, mask_BLM[:, None])\n",
        "    hide = lambda logits, _: logits\n",
        TEST_LOSSES,
        "padding_has_no_relations",
    ),
    Mutant(
        "states are compared with the layer before that of the map",
        DISTILL,
        "call.layers.states[np.array([*first, *(numbers + 1)])]",
        "call.layers.states[np.array([*first, *numbers])]",
        TEST_DISTILL,
        "those_after_it",
    ),
    Mutant(
        "the first teacher layers are learned, not every nth",
        DISTILL,
        "numbers = range(step - 1, teacher, step)",
        "numbers = range(student)",
        TEST_DISTILL,
        "another_size",
    ),
    Mutant(
        "the base objective's loss has its own factor",
        DISTILL,
        "name: term._replace(coef=self.hard * term.coef)",
        "name: term",
        TEST_DISTILL,
        "hard_is_the_base",
    ),
    Mutant(
        "queries are given scaled",
        "research/networks/layers/attention.py",
        "projections = Projections(query, key, value)",
        "projections = Projections(query * key_width**-0.5, key, value)",
        TEST_NETWORK,
        "projections_give",
    ),
    Mutant(
        "a student starts from the first layers, whichever are chosen",
        RESTORE,
        "picked[name] = by_name[name][np.array(layers)]",
        "picked[name] = by_name[name][: len(layers)]",
        TEST_DISTILL,
        "run_takes_its_teachers",
    ),
    Mutant(
        "pruned weights of magnitude come back",
        PRUNING,
        "return jax.tree.map(jnp.logical_and, largest, before)",
        "return jax.tree.map(lambda x: x >= 0.3, jax.tree.map(jnp.abs, weight))",
        TEST_PRUNING,
        "for_good",
    ),
    Mutant(
        "scores learn by the sign of the mask's gradient reversed",
        PRUNING,
        "score = jax.tree.map(lambda s, c: s - rate * c, state.score, change)",
        "score = jax.tree.map(lambda s, c: s + rate * c, state.score, change)",
        TEST_PRUNING,
        "movement_keeps",
    ),
    Mutant(
        "pruned weights of movement go on learning",
        PRUNING,
        "grads = merge(grads, _masked(pick(grads), state.mask))",
        "grads = merge(grads, pick(grads))",
        TEST_PRUNING,
        "movement_keeps",
    ),
    Mutant(
        "the schedule of pruning is linear",
        PRUNING,
        "(1 - jnp.clip((step - self.begin) / span, 0, 1)) ** 3",
        "(1 - jnp.clip((step - self.begin) / span, 0, 1))",
        TEST_PRUNING,
        "cubic_schedule",
    ),
]
