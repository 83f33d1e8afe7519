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

    A loop's body counts as often as its known trip count says. A TPU's reduce-scatter,
    which is a fused computation named all-reduce-scatter, counts as one.

    Args:
      hlo: `compiled.as_text()`.
    """
    computations, entry = _computations(hlo)
    found: dict[str, Collective] = {}
    _walk(computations, entry, 1, found)
    return dict(sorted(found.items()))


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


def _walk(computations, name: str, times: int, found: dict[str, Collective]) -> None:
    for line in computations.get(name, ()):
        kind = line.opcode.removesuffix("-start")
        sizes = _sizes(line.shape)
        if "calls=%all-reduce-scatter" in line.text:
            _add(found, "reduce-scatter", times, sum(sizes))
        elif kind in KINDS:
            started = line.opcode != kind and kind != "all-reduce"
            # What a started one gives comes after its operand.
            _add(found, kind, times, sizes[1] if started else sum(sizes))
        else:
            trips = TRIPS.search(line.text)
            loop = line.opcode == "while" and trips
            inside = times * int(trips[1]) if loop else times
            for called in _called(line.text):
                _walk(computations, called, inside, found)


def _called(text: str) -> list[str]:
    """Names of the computations that an instruction runs."""
    names = [found[1] for found in CALLED.finditer(text)]
    for found in BRANCHES.finditer(text):
        names += found[1].split(",")
    return [name.strip().lstrip("%") for name in names]


def _add(found: dict[str, Collective], kind: str, times: int, size: int) -> None:
    before = found.get(kind, Collective(0, 0))
    found[kind] = Collective(before.count + times, before.bytes + times * size)


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
