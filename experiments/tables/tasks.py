"""One pretrained network of each family on benchmarks of every kind.

python -m launch.report --table=experiments/tables/tasks.py --workdir=runs/tasks
"""

from experiments.paper_tables import published
from experiments.paper_tables.finetuning import NO_PRETRAINING
from experiments.paper_tables.scored import BLIMP, scored_column
from experiments.sweeps.tasks import METRICS

TABLE = published.benchmark_table(
    METRICS,
    title="Families of objectives on benchmarks",
    note="Text, order, tokens, vocabulary, width, number of layers and optimizer "
    "are equal; parameters and FLOPs are not. A dash: the objective's format "
    "does not fit the task, or its scores are of another kind. Empty cells of "
    "scores are filled by python -m launch.score.",
    baseline=NO_PRETRAINING,
    more=(
        BLIMP,
        scored_column("LAMBADA (accuracy)", "lambada", "accuracy", percent=True),
        scored_column(
            "LAMBADA (fill-in accuracy)", "lambada", "fill-in accuracy", percent=True
        ),
        *(
            scored_column(f"WikiText-2 ({cell})", "sentences", cell)
            for cell in ("perplexity a word", "pseudo-perplexity a word")
        ),
    ),
)
