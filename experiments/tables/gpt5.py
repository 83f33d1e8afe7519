"""GPT, table 5 (Radford et al. 2018): pretraining, and the auxiliary loss of tuning.

python -m launch.report --table=experiments/tables/gpt5.py --workdir=runs/gpt5
"""

from experiments.paper_tables import published

TABLE = published.table(
    "gpt5",
    title="Ablations of GPT's method (GPT, table 5)",
    note="“full” and “no auxiliary LM” start from the same pretrained networks.",
    baseline="full",
)
