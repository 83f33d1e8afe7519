"""Counts the collectives of a compiled step, and their bytes, from its HLO text."""

import math
import re
from typing import NamedTuple

from launch.measure.hlo_text import Instruction, Module

COLLECTIVES = (
    "all-gather",
    "all-reduce",
    "all-to-all",
    "collective-broadcast",
    "collective-permute",
    "ragged-all-to-all",
    "reduce-scatter",
)
SCATTER = "all-reduce-scatter"
CHANNEL = re.compile(r"channel_id=\d+")
GROUP_LIST = re.compile(r"replica_groups=\{\{([\d,]+)\}")
GROUP_IOTA = re.compile(r"replica_groups=\[\d+,(\d+)\]")
GROUP_MESH = re.compile(r"replica_groups=@?mesh\[([^\]]*)\][^{]*\{([^}]*)\}")
"""XLA's three ways to print groups (hlo/ir/collective_device_list.cc and
replica_group.cc): ids, an iota of [groups, devices], axes of a mesh."""
AXIS_SIZE = re.compile(r"'?(\w+)'?=(\d+)")
SUB_AXIS_SIZE = re.compile(r":\(\d+\)(\d+)$")


class Collective(NamedTuple):
    """All collectives of one opcode in one step of one device."""

    count: int
    bytes: int  # bytes of results
    sent_bytes: float  # bytes that a device has to send, and to receive


def count_collectives(module: Module) -> dict[str, Collective]:
    """The collectives of a compiled module, each counted as often as it runs.

    The body of a loop is multiplied by its trip count, or counts once if that is not
    known. On TPUs an asynchronous collective appears in several fused computations of
    one channel (start, continue, done) and counts once; a fused computation named
    all-reduce-scatter counts as a reduce-scatter.

    Returns:
      opcode -> number and bytes.
    """
    found: dict[tuple[str, str], Collective] = {}
    _walk(module, module.entry, 1, found)
    totals = {opcode: Collective(0, 0, 0.0) for opcode, _ in sorted(found)}
    for (opcode, _), counted in found.items():
        sums = (a + b for a, b in zip(totals[opcode], counted, strict=True))
        totals[opcode] = Collective(*sums)
    return totals


def sent_bytes(opcode: str, size: int, group: int) -> float:
    """The least bytes that each device of a group has to send, and to receive.

    The counts are for a ring (Patarasuk and Yuan 2009, "Bandwidth optimal all-reduce
    algorithms for clusters of workstations"): a device lacks (n - 1)/n of what it
    gathers, and an all-reduce is a reduce-scatter and an all-gather. With a switch that
    adds (NVIDIA's SHARP) an all-reduce needs half as many.

    Args:
      size: bytes of the result on one device.
      group: n, the number of devices that take part.
    """
    others = group - 1
    if opcode == "all-reduce":
        return 2 * size * others / group
    if opcode == "reduce-scatter":
        return float(size * others)  # the result is 1/n of the input
    if opcode in ("all-gather", "all-to-all", "ragged-all-to-all"):
        return size * others / group
    return float(size)


def _walk(module: Module, name: str, times: int, found: dict, fused=False) -> None:
    """Adds the collectives of a computation that runs `times` times to `found`."""
    for line in module.lines(name):
        opcode, size = _collective(line)
        if opcode:
            channel = CHANNEL.search(line.text) if fused else None
            key = opcode, channel[0] if channel else line.name
            if key not in found or times > found[key].count:
                sent = sent_bytes(opcode, size, _group_size(line, module))
                found[key] = Collective(times, times * size, times * sent)
        else:
            is_loop = line.opcode == "while"
            inner = times * module.trip_count(line) if is_loop else times
            for called in line.called:
                _walk(module, called, inner, found, fused or line.opcode == "fusion")


def _collective(line: Instruction) -> tuple[str, int]:
    """The opcode and the bytes of the result of a collective; "" if it is not one."""
    sizes = [array.bytes for array in line.arrays]
    if line.name.startswith(SCATTER) or f"calls=%{SCATTER}" in line.text:
        return "reduce-scatter", sum(sizes)
    opcode = line.opcode.removesuffix("-start")
    if opcode not in COLLECTIVES:
        return "", 0
    # A start op returns (operand, result, ...).
    is_start = line.opcode != opcode and opcode != "all-reduce"
    return opcode, sizes[1] if is_start else sum(sizes)


def _group_size(line: Instruction, module: Module) -> int:
    """The number of devices in a collective, or in the one that a fusion calls."""
    inner = (each for name in line.called for each in module.lines(name))
    for text in (line.text, *(each.text for each in inner)):
        if groups := GROUP_LIST.search(text):
            return len(groups[1].split(","))
        if groups := GROUP_IOTA.search(text):
            return int(groups[1])
        if groups := GROUP_MESH.search(text):
            sizes = dict(AXIS_SIZE.findall(groups[1]))
            axes = groups[2].replace("'", "").split(",")
            return math.prod(_axis_size(axis.strip(), sizes) for axis in axes)
    return module.num_devices


def _axis_size(axis: str, sizes: dict[str, str]) -> int:
    """The size of an axis, "x", or of a part of one, "x:(before)size"."""
    part = SUB_AXIS_SIZE.search(axis)
    return int(part[1] if part else sizes[axis])
