"""OpenKE's files (thunlp/OpenKE, benchmarks): the number of triples, then one a line.

A line is head, tail and relation between white space.
"""

from dataclasses import dataclass

from research.data.read import notations


@dataclass(frozen=True)
class Notation(notations.Notation):
    """It is an error if the number of triples differs from the first line's."""

    example = "2\n0 1 2\n1 0 3\n"

    def recognises(self, first_line):
        return first_line.strip().isdecimal()

    def parse(self, lines):
        lines, count = iter(lines), 0
        first, said = next(lines)
        for number, line in lines:
            if line.strip():
                form = "head tail relation"
                names = notations.three(number, line, line.split(), form)
                head, tail, relation = names
                count += 1
                yield number, notations.Triple(head, relation, tail)
        if count != int(said):
            raise ValueError(first, f"the file has {count} triples, not {int(said)}")
