"""A triple is a line `head<TAB>relation<TAB>tail`."""

from dataclasses import dataclass

from research.data.read import notations


@dataclass(frozen=True)
class Notation(notations.Notation):
    """Names may have white space within them, but no tabs."""

    suffixes = (".spo",)
    example = "0\t2\t1\n1\t3\t0\n"

    def recognises(self, first_line):
        return first_line.count("\t") == 2

    def parse(self, lines):
        for number, line in lines:
            if line.strip():
                columns = line.rstrip("\r\n").split("\t")
                form = "head<TAB>relation<TAB>tail"
                names = notations.three(number, line, columns, form)
                yield number, notations.Triple(*names)
