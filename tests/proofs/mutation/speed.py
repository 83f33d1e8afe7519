"""Mutants of `launch.speed`, of attention by JAX's own function, of rooflines."""

from tests.proofs.mutation import Mutant

TEST_SPEED = "tests/launch/test_speed.py"
TEST_LIBRARY = "tests/models/layers/test_library_attention.py"
TEST_TRAFFIC = "tests/launch/hardware/test_hbm_traffic.py"
TEST_COLLECTIVES = "tests/launch/hardware/test_hlo_collectives.py"
TEST_ROOFLINE = "tests/launch/hardware/test_roofline.py"
TRAFFIC = "launch/hardware/hbm_traffic.py"
COLLECTIVES = "launch/hardware/hlo_collectives.py"

MUTANTS = [
    Mutant(
        "a batch counts as one that fits, though the device lacks the memory",
        "launch/hardware/step_speed.py",
        "if limit is None or cost.peak_bytes <= limit:",
        "if cost.peak_bytes:",
        TEST_SPEED,
        "rows_are_halved",
    ),
    Mutant(
        "the pairs within a prefix are counted as causal ones",
        "launch/hardware/attention_speed.py",
        "pairs = causal_pairs + prefix * (prefix - 1) // 2",
        "pairs = causal_pairs",
        TEST_SPEED,
        "pairs_of_a_pattern",
    ),
    Mutant(
        "the library's query without keys outputs the mean of all values",
        "research/models/layers/library_attention.py",
        "return jnp.where(has_keys_BLH1, out_BLHK, 0)",
        "return out_BLHK",
        TEST_LIBRARY,
        "equals_dense",
    ),
    Mutant(
        "the backward pass of cuDNN's attention counts as the forward one",
        "research/run/flops.py",
        '"dot_product_attention_bwd_wrapper": 4,',
        '"dot_product_attention_bwd_wrapper": 2,',
        TEST_LIBRARY,
        "flops_of_dense",
    ),
    Mutant(
        "the body of a loop moves its bytes once, as XLA counts them",
        TRAFFIC,
        'times = module.trip_count(line) if line.opcode == "while" else 1',
        "times = 1",
        TEST_TRAFFIC,
        "loop",
    ),
    Mutant(
        "an array that stays on the chip is moved",
        TRAFFIC,
        "return sum(array.bytes for array in arrays if array.space == 0)",
        "return sum(array.bytes for array in arrays)",
        TEST_TRAFFIC,
        "on_the_chip",
    ),
    Mutant(
        "a slice reads all layers of a stack",
        TRAFFIC,
        "fractions[0] = min(1.0, result.elements / max(1, operand.elements))",
        "fractions[0] = 1.0",
        TEST_TRAFFIC,
        "slice",
    ),
    Mutant(
        "a row that is put into a stack writes all of it",
        TRAFFIC,
        "update = lines[line.operands[UPDATES[line.opcode]]]",
        "update = line",
        TEST_TRAFFIC,
        "loop",
    ),
    Mutant(
        "an asynchronous collective moves its bytes in each of its fusions",
        TRAFFIC,
        "return is_last or name.startswith(ASYNC_FUSION)",
        "return False",
        TEST_TRAFFIC,
        "asynchronous",
    ),
    Mutant(
        "an all-reduce sends what an all-gather does",
        COLLECTIVES,
        "return 2 * size * others / group",
        "return size * others / group",
        TEST_COLLECTIVES,
        "sends or iteration",
    ),
    Mutant(
        "a collective over one axis of the mesh is one of all devices",
        COLLECTIVES,
        "return math.prod(_axis_size(axis.strip(), sizes) for axis in axes)",
        "return math.prod(map(int, sizes.values()))",
        TEST_COLLECTIVES,
        "sends",
    ),
    Mutant(
        "what is computed again takes no time",
        "launch/hardware/roofline.py",
        'facts["flops_per_step"] + facts["recomputed_flops_per_step"]',
        'facts["flops_per_step"]',
        TEST_ROOFLINE,
        "slowest",
    ),
    Mutant(
        "the bound is the time of a step that overlaps nothing",
        "launch/hardware/roofline.py",
        "seconds = max(times)",
        "seconds = sum(times)",
        TEST_ROOFLINE,
        "slowest",
    ),
    Mutant(
        "arithmetic of a loss counts among matrix products",
        "research/run/flops.py",
        'return Counter({"other": max(array.size for array in numbers)})',
        "return Counter({products: max(array.size for array in numbers)})",
        "tests/run/test_flops.py",
        "by_dtype",
    ),
]
