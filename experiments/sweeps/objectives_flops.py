"""The objectives of `objectives.py` at equal training FLOPs instead of equal tokens.

    palimpsest sweep --sweep=experiments/sweeps/objectives_flops.py \\
        --workdir=runs/flops
    palimpsest table --table=experiments/tables/objectives_flops.py \\
        --workdir=runs/flops

Hypothesis: objectives that score few tokens (mlm, plm) cost half as much a token as lm
and dae, so that their order improves when each spends what lm spends.
"""

from collections.abc import Iterator
from typing import Any

from experiments.sweeps import objectives


def sweep(scale: str) -> Iterator[tuple[str, dict[str, Any]]]:
    return objectives.sweep(scale, budget="flops")
