"""The roofline of a compiled step: the least time for its FLOPs and bytes.

Williams, Waterman and Patterson 2009, "Roofline: an insightful visual performance
model", Communications of the ACM 52(4), with the network as a third roof. Compute,
memory and links are assumed to work in parallel at their published rates; nothing is
measured.
"""

from typing import Any, NamedTuple

from launch.measure.accelerators import Chip


class Times(NamedTuple):
    """Seconds that a step needs of each resource at its published rate."""

    compute: float
    memory: float
    network: float


def step_times(facts: dict[str, Any], chip: Chip) -> Times:
    """Bounds of a step's time, from the facts of `aot_compile.compile_facts`.

    Every matrix product has the rate of bfloat16, which float32 does not reach; other
    FLOPs, for which no rates are published, take no time. A kernel that skips hidden
    pairs of query and key computes less than it states and than is assumed here. Links
    carry what a ring sends (`hlo_collectives.sent_bytes`), at the total rate of a
    chip's links. They connect all devices of a slice; the data-centre network is not
    used.
    """
    computed = facts["flops_per_step"] + facts["recomputed_flops_per_step"]
    sent = sum(each["sent_bytes"] for each in facts["collectives"].values())
    return Times(
        compute=computed / facts["num_devices"] / chip.flops,
        memory=facts["hbm_traffic_bytes"] / chip.hbm_rate,
        network=sent / chip.link_rate,
    )


def bound(facts: dict[str, Any], chip: Chip) -> dict[str, Any]:
    """Bounds of a step's time, speed and MFU, by the slowest of its `step_times`.

    MFU counts the FLOPs that the step needs, without recomputed ones.
    """
    times = step_times(facts, chip)
    seconds = max(times)
    peak = chip.flops * facts["num_devices"]
    return {
        "by": times._fields[times.index(seconds)],
        **{f"{name}_seconds": each for name, each in times._asdict().items()},
        "step_seconds_at_least": seconds,
        "tokens_per_second_at_most": facts["batch"] * facts["length"] / seconds,
        "mfu_at_most": facts["flops_per_step"] / seconds / peak,
    }
