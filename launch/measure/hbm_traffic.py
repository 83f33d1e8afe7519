"""Bytes that a compiled step moves to and from a device's memory, from its HLO text.

Every instruction reads its operands once and writes its results once. Nothing is moved
between the instructions of a fusion, or for an array that the TPU's compiler keeps on
the chip (a memory space other than 0 in its layout). XLA's "bytes accessed" counts the
body of a loop only once, and includes arrays on the chip.

The number is too small for a product that reads an operand again for every tile, and
for the padding of tiles. It is too large where a kernel skips some of its operands, and
on GPUs, where an array may stay in the cache.
"""

import re
from collections import defaultdict
from collections.abc import Sequence

from launch.measure.hlo_collectives import COLLECTIVES
from launch.measure.hlo_text import Array, Instruction, Module

PARAMETER = re.compile(r"parameter\((\d+)\)")

FREE = {
    "after-all",
    "bitcast",
    "constant",
    "get-tuple-element",
    "opt-barrier",
    "parameter",
    "partition-id",
    "replica-id",
    "tuple",
}
"""Opcodes that move no data, as all whose names end in -done."""

FREE_TARGETS = ("AllocateBuffer", "AssumeGatherIndicesInBound", "ConcatBitcast")
"""Targets of calls of the TPU's compiler that only name an array."""

SLICES = ("dynamic-slice", "gather", "slice")
"""Opcodes that read only as much of their first operand as their result has."""

UPDATES = {"dynamic-update-slice": 1, "scatter": 2}
"""Opcode -> index of the operand that is written into the first one, in place."""

ASYNC_START, ASYNC_DONE = "AsyncCollectiveStart", "AsyncCollectiveDone"
ASYNC_FUSION = "async_collective_fusion"
"""Prefix of fusions with a part of a collective. On TPUs it starts in one fusion,
continues in others beside a product, and ends in a last one; each has its line."""


def hbm_bytes(module: Module) -> int:
    """Bytes that a device reads from and writes to its memory in one step.

    A loop's body counts as often as it runs (`Module.trip_count`), a conditional as its
    cheapest branch.
    """
    return round(_computation_bytes(module, module.entry))


def _computation_bytes(module: Module, name: str) -> float:
    total = 0.0
    for line in module.lines(name):
        if line.opcode in ("while", "call"):
            times = module.trip_count(line) if line.opcode == "while" else 1
            total += times * sum(_computation_bytes(module, c) for c in line.called)
        elif line.opcode == "conditional":
            branches = (_computation_bytes(module, c) for c in line.called)
            total += min(branches, default=0.0)
        elif not _is_free(line):
            total += _read_bytes(module, name, line)
            total += _written_bytes(module, name, line)
    return total


def _is_free(line: Instruction) -> bool:
    is_free_call = any(f'"{target}"' in line.text for target in FREE_TARGETS)
    return line.opcode in FREE or line.opcode.endswith("-done") or is_free_call


def _read_bytes(module: Module, name: str, line: Instruction) -> float:
    """Bytes that a line reads of its operands in memory."""
    lines = module.computations[name]
    fractions: dict[str, float] = defaultdict(float)
    parts = _read_fractions(module, name, line)
    for operand, part in zip(line.operands, parts, strict=True):
        fractions[operand] += part
    return sum(
        min(1.0, fraction) * _memory_bytes(lines[operand].arrays)
        for operand, fraction in fractions.items()
    )


def _read_fractions(module: Module, name: str, line: Instruction) -> list[float]:
    """The fraction of each operand that a line reads, if all of its result is used."""
    opcode, num_operands = line.opcode.removesuffix("-start"), len(line.operands)
    if opcode == "fusion":
        fractions = _parameter_fractions(module, line.called[0])
        return [fractions.get(number, 0.0) for number in range(num_operands)]
    if _continues(module, name, line):
        return [0.0] * num_operands
    fractions = [1.0] * num_operands
    if opcode in UPDATES:
        fractions[0] = 0.0
    elif opcode in SLICES:
        (operand,) = module.computations[name][line.operands[0]].arrays
        # A start op returns (operand, result, ...).
        result = line.arrays[0 if opcode == line.opcode else 1]
        fractions[0] = min(1.0, result.elements / max(1, operand.elements))
    return fractions


def _parameter_fractions(module: Module, name: str) -> dict[int, float]:
    """Index of a fused computation's parameter -> the fraction of it that is read.

    It is computed from the root backwards. Slices of an array are taken to be disjoint
    and add up; of other uses the largest counts. What the root only passes on is not
    read.
    """
    lines = module.computations[name]
    sliced: dict[str, float] = defaultdict(float)
    used: dict[str, float] = defaultdict(float)
    fractions = {}
    for line in reversed(lines.values()):
        needed = min(1.0, max(sliced[line.name], used[line.name]))
        if line.opcode == "parameter":
            fractions[int(PARAMETER.match(line.text)[1])] = needed
        elif line.is_root and line.opcode == "tuple":
            for each in line.operands:
                used[each] = float(lines[each].opcode != "parameter")
        else:
            needed = 1.0 if line.is_root else needed
            parts = _read_fractions(module, name, line)
            for each, fraction in zip(line.operands, parts, strict=True):
                part = needed * fraction
                if line.opcode in SLICES:
                    sliced[each] += part
                else:
                    used[each] = max(used[each], part)
    return fractions


def _written_bytes(module: Module, name: str, line: Instruction) -> int:
    """Bytes that a line writes to memory."""
    arrays = line.arrays
    if line.opcode == "copy-start":
        return _memory_bytes(arrays[:1])  # (result, operand, context)
    if line.opcode.endswith("-start") and line.opcode != "all-reduce-start":
        return _memory_bytes(arrays[1:2])  # (operand, result, ...)
    parts = [line] if len(arrays) == 1 else []
    if line.opcode == "fusion":
        name = line.called[0]
        root = module.root(name)
        if ASYNC_START in root.text:
            return _memory_bytes(arrays[1:2])
        lines = module.computations[name]
        is_tuple = root.opcode == "tuple"
        parts = [lines[each] for each in root.operands] if is_tuple else [root]
    if len(parts) != len(arrays):
        return _memory_bytes(arrays)
    return sum(
        _new_bytes(module, name, part)
        for array, part in zip(arrays, parts, strict=True)
        if array.space == 0
    )


def _new_bytes(module: Module, name: str, line: Instruction) -> int:
    """Bytes of a result that are not already in its operands."""
    lines = module.computations[name]
    if line.opcode == "bitcast":
        return _new_bytes(module, name, lines[line.operands[0]])
    if line.opcode in UPDATES:
        update = lines[line.operands[UPDATES[line.opcode]]]
        return sum(array.bytes for array in update.arrays)
    if line.opcode == "fusion":
        called = line.called[0]
        return _new_bytes(module, called, module.root(called))
    if line.opcode == "parameter" or _continues(module, name, line):
        return 0
    return sum(array.bytes for array in line.arrays)


def _continues(module: Module, name: str, line: Instruction) -> bool:
    """Whether a line of a fusion continues a collective that another fusion started."""
    if line.opcode not in COLLECTIVES:
        return ASYNC_DONE in line.text
    is_last = any(ASYNC_DONE in each.text for each in module.lines(name))
    return is_last or name.startswith(ASYNC_FUSION)


def _memory_bytes(arrays: Sequence[Array]) -> int:
    return sum(array.bytes for array in arrays if array.space == 0)
