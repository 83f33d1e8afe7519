"""What devices say to each other in a compiled step, read off its HLO text."""

import math
import re
from typing import NamedTuple

KINDS = (
    "all-gather",
    "all-reduce",
    "all-to-all",
    "collective-broadcast",
    "collective-permute",
    "ragged-all-to-all",
    "reduce-scatter",
)

WIDTHS = {"pred": 1, "token": 0, "opaque": 0}
"""Bytes of an element whose type's name does not tell its bits."""

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
TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"\}')


class Collective(NamedTuple):
    """One kind of collective, over a whole step of one device."""

    count: int
    bytes: int  # of results


class Instruction(NamedTuple):
    """A line of HLO, as far as it matters here."""

    name: str
    shape: str  # of the result, as text
    opcode: str
    text: str


def count(hlo: str) -> dict[str, Collective]:
    """The collectives of a compiled module, each as often as it runs.

    A loop's body counts as often as its trip count says, that of a loop without one
    once. Of a TPU: an asynchronous collective, which stands in fused computations of
    one channel where it starts, goes on and is done, counts once; a fused computation
    named all-reduce-scatter counts as a reduce-scatter.

    Args:
      hlo: `compiled.as_text()`.
    """
    computations, entry = _computations(hlo)
    each: dict[tuple[str, str], Collective] = {}
    _walk(computations, entry, 1, each)
    found = {kind: Collective(0, 0) for kind, _ in sorted(each)}
    for (kind, _), (times, size) in each.items():
        found[kind] = Collective(found[kind].count + times, found[kind].bytes + size)
    return found


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
    for line in computations.get(name, ()):
        kind = line.opcode.removesuffix("-start")
        sizes = _sizes(line.shape)
        if line.name.startswith(SCATTER) or f"calls=%{SCATTER}" in line.text:
            _add(found, "reduce-scatter", line.name, times, sum(sizes))
        elif kind in KINDS:
            started = line.opcode != kind and kind != "all-reduce"
            channel = CHANNEL.search(line.text) if fused else None
            # What a started one gives comes after its operand.
            size = sizes[1] if started else sum(sizes)
            _add(found, kind, channel[0] if channel else line.name, times, size)
        else:
            loops = line.opcode == "while"
            inside = times * _trips(computations, line.text) if loops else times
            for called in _called(line.text):
                fuses = fused or line.opcode == "fusion"
                _walk(computations, called, inside, found, fuses)


def _add(found: dict, kind: str, name: str, times: int, size: int) -> None:
    before = found.get((kind, name), Collective(0, 0))
    if times > before.count:
        found[kind, name] = Collective(times, times * size)


def _trips(computations, text: str) -> int:
    """How often a loop runs: as it says, or as the end of its count in the condition.

    A loop that ends otherwise counts once.
    """
    if told := TRIPS.search(text):
        return int(told[1])
    condition = CONDITION.search(text)
    lines = computations.get(condition[1], ()) if condition else ()
    ends = [found[1] for line in lines if (found := CONSTANT.match(line.text))]
    counts = any("direction=LT" in line.text for line in lines)
    return int(ends[0]) if counts and len(ends) == 1 else 1


def _called(text: str) -> list[str]:
    """Names of the computations that an instruction runs."""
    names = [found[1] for found in CALLED.finditer(text)]
    for found in BRANCHES.finditer(text):
        names += found[1].split(",")
    return [name.strip().lstrip("%") for name in names]


def _sizes(shape: str) -> list[int]:
    """Bytes of each array of a shape, a tuple perhaps."""
    return [
        math.prod(int(n) for n in dims.split(",") if n) * _width(kind)
        for kind, dims in SHAPE.findall(shape)
    ]


def _width(kind: str) -> int:
    """Bytes of an element; less than a byte counts as one."""
    if kind in WIDTHS:
        return WIDTHS[kind]
    bits = re.match(r"[a-z]+(\d+)", kind)
    return max(1, int(bits[1]) // 8) if bits else 0
