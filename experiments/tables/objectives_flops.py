"""Loss, cost and downstream accuracy of five objectives at equal training FLOPs.

palimpsest table --table=experiments/tables/objectives_flops.py --workdir=runs/f
"""

from experiments.tables import objectives

TABLE = objectives.TABLE._replace(
    title="Five pretraining objectives at equal training FLOPs",
    note=(
        "Pretraining is equal in text, order, width, layers, optimizer and FLOPs "
        "(lm's, to half a step), not in tokens seen, parameters and time, which are "
        "shown. The same warm-up is a smaller part of a longer run. Losses of "
        "different objectives are not comparable; docstrings are."
    ),
)
