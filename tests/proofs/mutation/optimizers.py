"""Learning rates, what decays, and what is frozen."""

from tests.proofs.mutation import Mutant

OPTIMIZER = "research/run/optimizer.py"
SCHEDULE = "research/run/schedule.py"
ADAM = "research/optimizers/shared/adam_moments.py"
DECAY = "research/optimizers/shared/weight_decay.py"
TEST_OPTIMIZER = "tests/run/test_optimizer.py"
TEST_SCHEDULES = "tests/run/test_schedules.py"

MUTANTS = [
    Mutant(
        "fairseq's epsilon is added after the bias correction",
        ADAM,
        'if self.bias_correction and self.epsilon_place == "after":',
        "if self.bias_correction:",
        TEST_OPTIMIZER,
        "equal_those_in_numpy",
    ),
    Mutant(
        "weight decay applies to biases and norms",
        DECAY,
        'return which == "all" or not (name == "scale" or name.endswith("bias"))',
        'return which == "all" or not name == "scales"',
        TEST_OPTIMIZER,
        "weight_decay_leaves_out",
    ),
    Mutant(
        "Adam corrects the bias of its moments though bias_correction is off",
        ADAM,
        "if self.bias_correction:",
        "if self.bias_correction or True:",
        TEST_OPTIMIZER,
        "updates_equal_those_in_numpy",
    ),
    Mutant(
        "the first step of a warm-up has the rate 0",
        SCHEDULE,
        "first = 0 if from_start else 1  #",
        "first = 0  #",
        TEST_SCHEDULES,
        "the_peak_is_reached",
    ),
    Mutant(
        "BERT's rate decays from the end of its warm-up, not from step 0",
        SCHEDULE,
        "origin = 0 if from_start else warmup  #",
        "origin = warmup  #",
        TEST_SCHEDULES,
        "counts_from_step_0",
    ),
    Mutant(
        "ELECTRA's warm-up replaces the decay, as in BERT",
        SCHEDULE,
        "(step + first) / warmup * decay(jnp.maximum(step - origin, 0))",
        "(step + first) / warmup * peak",
        TEST_SCHEDULES,
        "factor_of_the_decay",
    ),
    Mutant(
        "XLNet's biases of queries do not decay",
        DECAY,
        'if which == "query_biases" and name in QUERY_BIASES:',
        'if which == "query_biases" and name in ():',
        TEST_OPTIMIZER,
        "also_decays_its_query_biases",
    ),
    Mutant(
        "weight decay applies to matrices alone, whatever decay_params says",
        DECAY,
        "return decayed_params(params, self.decay_params)",
        "return decayed_params(params)",
        TEST_OPTIMIZER,
        "decays_what_decay_params_names",
    ),
    Mutant(
        "LAMB and AdaFactor take norms over all stacked layers",
        "research/optimizers/shared/by_matrix.py",
        "return jax.vmap(fn)(*leaves) if np.ndim(depth) else fn(*leaves)",
        "return fn(*leaves)",
        TEST_OPTIMIZER,
        "updates_equal_those_in_numpy",
    ),
    Mutant(
        "frozen parameters have moments and decay",
        OPTIMIZER,
        "if config.frozen:\n        chain =",
        "if False:\n        chain =",
        TEST_OPTIMIZER,
        "frozen",
    ),
    Mutant(
        "a checkpoint with moments of frozen parameters is refused",
        "research/checkpoints/checkpoint.py",
        "masked = _masked_names(wanted)",
        "masked = set()",
        "tests/test_train.py",
        "has_moments_goes_on",
    ),
    Mutant(
        "the stable phase ends where the run does",
        "research/optimizers/shared/ending_schedule.py",
        "jnp.maximum(count - stable_steps, 0)",
        "jnp.maximum(count - stable_steps - decay_steps, 0)",
        TEST_SCHEDULES,
        "stay_at_its_peak",
    ),
    Mutant(
        "slanted triangular rates begin at 0",
        SCHEDULE,
        "peak * _final_fraction(schedule, config.schedule), peak, warmup",
        "0.0, peak, warmup",
        TEST_SCHEDULES,
        "slanted",
    ),
    Mutant(
        "Muon takes arrays of two dims, as optax does: tables and no scanned block",
        "research/optimizers/muon.py",
        "is_matrix = np.ndim(depth) == 1 and leaf.ndim == 3",
        "return 'muon' if leaf.ndim == 2 else 'adam'",
        "tests/run/test_muon.py",
        "takes_the_kernels",
    ),
    Mutant(
        "Muon's updates have another size than AdamW's",
        "research/optimizers/muon.py",
        "return self.update_rms * max(size_in, size_out) ** 0.5 * update",
        "return self.update_rms * update",
        TEST_OPTIMIZER,
        "equal_those_in_numpy",
    ),
    Mutant(
        "a cooldown by 1 - sqrt is linear",
        "research/optimizers/schedules/one_minus_sqrt.py",
        "(1 - jnp.sqrt(done))",
        "(1 - done)",
        TEST_SCHEDULES,
        "one_minus_sqrt",
    ),
    Mutant(
        "a stage of its own for the final norm",
        "research/run/layer_rates.py",
        "np.maximum(top - 1 - depth, depth < top)",
        "(top - depth)",
        "tests/run/test_layer_rates.py",
        "one_after_the_other",
    ),
    Mutant(
        "the moving average has the initial parameters in it",
        "research/moving_average.py",
        "weight = (1 - decay) / -jnp.expm1(count * math.log(decay))",
        "weight = 1 - decay",
        "tests/test_moving_average.py",
        "fall_with_age",
    ),
]
