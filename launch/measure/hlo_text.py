"""Reads the text of a compiled module: its instructions, their shapes, its loops."""

import math
import re
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

ELEMENT_BYTES = {"pred": 1, "token": 0, "opaque": 0}
"""Type whose name does not contain its bits -> bytes per element."""

PARTITIONS = re.compile(r"^HloModule .*\bnum_partitions=(\d+)", re.MULTILINE)
COMPUTATION = re.compile(r"^(ENTRY )?%?([\w.\-]+) .*\{$")
INSTRUCTION = re.compile(r"^\s+(ROOT )?%?([\w.\-]+) = (.*)$")
OPCODE = re.compile(r"(?:^|[\s)}])([a-z][\w\-]*)\(")
ARRAY = re.compile(r"\b([a-z]+\d*[a-z0-9]*)\[([\d,]*)\](?:\{([^}]*)\})?")
MEMORY_SPACE = re.compile(r"S\((\d+)\)")
OPERANDS = re.compile(r"\(([^()]*)\)")
NAME = re.compile(r"%([\w.\-]+)")
CALLED = re.compile(r"(?:calls|to_apply|body|condition)=([^,\s]+)")
BRANCHES = re.compile(r"branch_computations=\{([^}]*)\}")
CONDITION = re.compile(r"condition=%([\w.\-]+)")
CONSTANT = re.compile(r"constant\((\d+)\)")
TRIP_COUNT = re.compile(r'"known_trip_count":\{"n":"(\d+)"\}')


class Array(NamedTuple):
    """One array of an instruction's result."""

    elements: int
    bytes: int  # without the padding of tiles; a type of less than a byte has one
    space: int  # 0: the device's main memory; others: on the chip, or the host's


@dataclass
class Instruction:
    """A parsed line of HLO."""

    name: str
    shape: str  # shape of the result, as text
    opcode: str
    text: str  # from the opcode on
    is_root: bool  # its result is the result of the computation

    @cached_property
    def arrays(self) -> list[Array]:
        """The arrays of the result, which may be a tuple, in order."""
        return [_array(*found) for found in ARRAY.findall(self.shape)]

    @cached_property
    def operands(self) -> list[str]:
        """Names of the instructions whose results are its operands, in order."""
        found = OPERANDS.search(self.text)
        return NAME.findall(found[1]) if found else []

    @cached_property
    def called(self) -> list[str]:
        """Names of the computations that it runs."""
        names = [found[1] for found in CALLED.finditer(self.text)]
        for found in BRANCHES.finditer(self.text):
            names += found[1].split(",")
        return [name.strip().lstrip("%") for name in names]


class Module(NamedTuple):
    """A compiled module, which every device runs."""

    computations: dict[str, dict[str, Instruction]]  # both by name, in order
    entry: str  # name of the entry computation
    num_devices: int

    def lines(self, name: str) -> Collection[Instruction]:
        """The instructions of a computation; none if it is not in this module."""
        return self.computations.get(name, {}).values()

    def root(self, name: str) -> Instruction:
        """The instruction whose result is that of a computation."""
        (root,) = (line for line in self.lines(name) if line.is_root)
        return root

    def trip_count(self, loop: Instruction) -> int:
        """The known trip count of a loop, or the constant its condition compares to.

        1 for a loop with another condition.
        """
        if known := TRIP_COUNT.search(loop.text):
            return int(known[1])
        condition = CONDITION.search(loop.text)
        lines = self.lines(condition[1]) if condition else ()
        bounds = [found[1] for line in lines if (found := CONSTANT.match(line.text))]
        is_counter = any("direction=LT" in line.text for line in lines)
        return int(bounds[0]) if is_counter and len(bounds) == 1 else 1


def parse(hlo: str) -> Module:
    """The module of a text, `compiled.as_text()`."""
    computations: dict[str, dict[str, Instruction]] = {}
    current: dict[str, Instruction] = {}
    entry = ""
    for line in hlo.splitlines():
        if head := COMPUTATION.match(line):
            current = computations.setdefault(head[2], {})
            entry = head[2] if head[1] else entry
        elif (found := INSTRUCTION.match(line)) and (op := OPCODE.search(found[3])):
            shape, rest = found[3][: op.start(1)], found[3][op.start(1) :]
            is_root = bool(found[1])
            current[found[2]] = Instruction(found[2], shape, op[1], rest, is_root)
    partitions = PARTITIONS.search(hlo)
    return Module(computations, entry, int(partitions[1]) if partitions else 1)


def _array(dtype: str, dims: str, layout: str) -> Array:
    elements = math.prod(int(n) for n in dims.split(",") if n)
    space = MEMORY_SPACE.search(layout)
    size = elements * _element_bytes(dtype)
    return Array(elements, size, int(space[1]) if space else 0)


def _element_bytes(dtype: str) -> int:
    if dtype in ELEMENT_BYTES:
        return ELEMENT_BYTES[dtype]
    bits = re.match(r"[a-z]+(\d+)", dtype)
    return max(1, int(bits[1]) // 8) if bits else 0
