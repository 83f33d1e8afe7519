"""Counts the collectives of a compiled step, and their bytes, from its HLO text."""

import math
import re
from typing import NamedTuple

COLLECTIVES = (
    "all-gather",
    "all-reduce",
    "all-to-all",
    "collective-broadcast",
    "collective-permute",
    "ragged-all-to-all",
    "reduce-scatter",
)

ELEMENT_BYTES = {"pred": 1, "token": 0, "opaque": 0}
"""Bytes per element of the types whose name does not contain their bits."""

COMPUTATION = re.compile(r"^(ENTRY )?%?([\w.\-]+) .*\{$")
INSTRUCTION = re.compile(r"^\s+(?:ROOT )?%?([\w.\-]+) = (.*)$")
OPCODE = re.compile(r"(?:^|[\s)}])([a-z][\w\-]*)\(")
SHAPE = re.compile(r"\b([a-z]+\d*[a-z0-9]*)\[([\d,]*)\]")
CALLED = re.compile(r"(?:calls|to_apply|body|condition)=([^,\s]+)")
BRANCHES = re.compile(r"branch_computations=\{([^}]*)\}")
SCATTER = "all-reduce-scatter"
CHANNEL = re.compile(r"channel_id=\d+")
CONDITION = re.compile(r"condition=%([\w.\-]+)")
CONSTANT = re.compile(r"constant\((\d+)\)")
TRIP_COUNT = re.compile(r'"known_trip_count":\{"n":"(\d+)"\}')


class Collective(NamedTuple):
    """All collectives of one opcode in one step of one device."""

    count: int
    bytes: int  # of results


class Instruction(NamedTuple):
    """A parsed line of HLO."""

    name: str
    shape: str  # of the result, as text
    opcode: str
    text: str  # from the opcode on


def count_collectives(hlo: str) -> dict[str, Collective]:
    """The collectives of a compiled module, each counted as often as it runs.

    The body of a loop is multiplied by its trip count, or counts once if that is not
    known. On TPUs an asynchronous collective appears in several fused computations of
    one channel (start, continue, done) and counts once; a fused computation named
    all-reduce-scatter counts as a reduce-scatter.

    Args:
      hlo: `compiled.as_text()`.

    Returns:
      opcode -> number and bytes.
    """
    computations, entry = _computations(hlo)
    found: dict[tuple[str, str], Collective] = {}
    _walk(computations, entry, 1, found)
    totals = {opcode: Collective(0, 0) for opcode, _ in sorted(found)}
    for (opcode, _), (times, size) in found.items():
        total = totals[opcode]
        totals[opcode] = Collective(total.count + times, total.bytes + size)
    return totals


def _computations(hlo: str) -> tuple[dict[str, list[Instruction]], str]:
    """The instructions of each computation, and the name of the entry."""
    computations: dict[str, list[Instruction]] = {}
    current: list[Instruction] = []
    entry = ""
    for line in hlo.splitlines():
        if head := COMPUTATION.match(line):
            current = computations.setdefault(head[2], [])
            entry = head[2] if head[1] else entry
        elif (found := INSTRUCTION.match(line)) and (op := OPCODE.search(found[2])):
            shape, rest = found[2][: op.start(1)], found[2][op.start(1) :]
            current.append(Instruction(found[1], shape, op[1], rest))
    return computations, entry


def _walk(computations, name: str, times: int, found: dict, fused=False) -> None:
    """Adds the collectives of a computation that runs `times` times to `found`."""
    for line in computations.get(name, ()):
        opcode = line.opcode.removesuffix("-start")
        sizes = _sizes(line.shape)
        if line.name.startswith(SCATTER) or f"calls=%{SCATTER}" in line.text:
            _add(found, "reduce-scatter", line.name, times, sum(sizes))
        elif opcode in COLLECTIVES:
            is_start = line.opcode != opcode and opcode != "all-reduce"
            channel = CHANNEL.search(line.text) if fused else None
            # A start op returns (operand, result, ...).
            size = sizes[1] if is_start else sum(sizes)
            _add(found, opcode, channel[0] if channel else line.name, times, size)
        else:
            is_loop = line.opcode == "while"
            inner = times * _trip_count(computations, line.text) if is_loop else times
            for called in _called(line.text):
                in_fusion = fused or line.opcode == "fusion"
                _walk(computations, called, inner, found, in_fusion)


def _add(found: dict, opcode: str, name: str, times: int, size: int) -> None:
    before = found.get((opcode, name), Collective(0, 0))
    if times > before.count:
        found[opcode, name] = Collective(times, times * size)


def _trip_count(computations, text: str) -> int:
    """The known trip count of a loop, or the constant that its condition compares to.

    1 for a loop with another condition.
    """
    if known := TRIP_COUNT.search(text):
        return int(known[1])
    condition = CONDITION.search(text)
    lines = computations.get(condition[1], ()) if condition else ()
    bounds = [found[1] for line in lines if (found := CONSTANT.match(line.text))]
    is_counter = any("direction=LT" in line.text for line in lines)
    return int(bounds[0]) if is_counter and len(bounds) == 1 else 1


def _called(text: str) -> list[str]:
    """Names of the computations that an instruction runs."""
    names = [found[1] for found in CALLED.finditer(text)]
    for found in BRANCHES.finditer(text):
        names += found[1].split(",")
    return [name.strip().lstrip("%") for name in names]


def _sizes(shape: str) -> list[int]:
    """Bytes of each array of a shape, which may be a tuple."""
    return [
        math.prod(int(n) for n in dims.split(",") if n) * _element_bytes(dtype)
        for dtype, dims in SHAPE.findall(shape)
    ]


def _element_bytes(dtype: str) -> int:
    """Bytes per element; types of less than a byte count as one byte."""
    if dtype in ELEMENT_BYTES:
        return ELEMENT_BYTES[dtype]
    bits = re.match(r"[a-z]+(\d+)", dtype)
    return max(1, int(bits[1]) // 8) if bits else 0
