"""The roofline of a compiled step: no step of these FLOPs and bytes is faster.

Williams, Waterman and Patterson 2009, "Roofline: an insightful visual performance
model", Communications of the ACM 52(4), with the network as a third roof. Compute,
memory and links are taken to work at their published rates all the time, each beside
the others; nothing is measured.
"""

from typing import Any, NamedTuple

from launch.hardware.accelerators import Chip


class Times(NamedTuple):
    """Seconds that a step needs of each at its published rate, if nothing else does."""

    compute: float
    memory: float
    network: float


def step_times(facts: dict[str, Any], chip: Chip) -> Times:
    """Bounds of a step's time, from the facts of `aot_compile.compile_facts`.

    Every matrix product has the rate of bfloat16, which float32 does not reach; other
    FLOPs, whose rate no maker publishes, take no time. A kernel that leaves out hidden
    pairs of query and key computes less than it states, and than is taken here. Links
    carry what a ring sends (`hlo_collectives.sent_bytes`), at the rate of all of a
    chip's links together. All devices of a slice are joined by these links: the
    data-centre network is not used.
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

    MFU is of the FLOPs that the step needs, without what it computes again.
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
