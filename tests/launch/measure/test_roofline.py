"""The bound of a step is its slowest time at the published rates."""

import pytest

from launch.measure import accelerators
from launch.measure.roofline import bound

CHIP = accelerators.Chip(flops=1e12, hbm=1, hbm_rate=1e9, link_rate=1e8)
FACTS = {
    "num_devices": 4,
    "batch": 8,
    "length": 16,
    "flops_per_step": 4e12,
    "recomputed_flops_per_step": 4e12,
    "hbm_traffic_bytes": 1e9,
    "collectives": {
        "all-reduce": {"sent_bytes": 5e7},
        "all-gather": {"sent_bytes": 5e7},
    },
}


def test_the_slowest_of_three_times_is_the_bound():
    found = bound(FACTS, CHIP)
    assert found["by"] == "compute" and found["compute_seconds"] == 2
    assert found["memory_seconds"] == found["network_seconds"] == 1
    assert found["step_seconds_at_least"] == 2
    assert found["tokens_per_second_at_most"] == 64
    assert found["mfu_at_most"] == 0.5  # half of the FLOPs are computed again
    found = bound(FACTS | {"hbm_traffic_bytes": 4e9}, CHIP)
    assert found["by"] == "memory" and found["mfu_at_most"] == pytest.approx(0.25)
    found = bound(FACTS | {"collectives": {"all-to-all": {"sent_bytes": 1e9}}}, CHIP)
    assert found["by"] == "network" and found["step_seconds_at_least"] == 10


def test_no_chip_stands_behind_a_shorter_prefix_of_its_name():
    for name, chip in accelerators.CHIPS.items():
        assert accelerators.find_chip(f"{name} 80GB") == chip
    assert accelerators.find_chip("cpu") is None
