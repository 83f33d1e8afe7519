"""XLNet, table 6 (Yang et al. 2019): what each part of XLNet brings.

python -m launch.report --table=experiments/tables/xlnet6.py --workdir=runs/xlnet6
"""

from experiments.paper_tables import published

TABLE = published.table(
    "xlnet6",
    title="Ablations of XLNet (XLNet, table 6)",
    note="Steps, batch and width are equal. Rows with a minus sign are of K = 6.",
    baseline="XLNet-base K=6",
)
