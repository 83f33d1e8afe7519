"""The perplexity of AWD-LSTM beside that of Transformers.

python -m launch.table --table=experiments/tables/awd_lstm.py --workdir=runs/awd_lstm
"""

from experiments.sweeps.awd_lstm import LSTM
from launch.reports.result_columns import COSTS, PRETRAINING, WORD_PERPLEXITY
from launch.reports.tables import Column, Table, labelled_rows

PARAMETERS, TOKENS, _ = COSTS

TABLE = Table(
    title="AWD-LSTM and Transformers on the same words",
    row_header="network",
    note=(
        "Text, order, vocabulary, tokens, rows that go on from batch to batch, and "
        "Adam are equal; the rate is each row's own."
    ),
    rows=labelled_rows,
    columns=(
        PARAMETERS._replace(digits=3),
        Column(
            "MFLOP a token",
            PRETRAINING,
            lambda trial: trial.result["flops_per_token"] / 1e6,
        ),
        TOKENS,
        WORD_PERPLEXITY._replace(digits=1),
    ),
    baseline=LSTM,
)
