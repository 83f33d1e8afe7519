"""The perplexity of AWD-LSTM beside that of Transformers.

palimpsest table --table=experiments/tables/awd_lstm.py --workdir=runs/awd_lstm
"""

from experiments.sweeps.awd_lstm import LSTM
from launch.reports.columns import PRETRAINING, named
from launch.reports.tables import Column, Table, labelled_rows

TABLE = Table(
    title="AWD-LSTM and Transformers on the same words",
    row_header="network",
    note=(
        "Text, order, vocabulary, tokens, rows that go on from batch to batch, and "
        "Adam are equal; the rate is each row's own."
    ),
    rows=labelled_rows,
    columns=(
        named("parameters, M")._replace(digits=3),
        Column(
            "MFLOP a token",
            PRETRAINING,
            lambda trial: trial.result["flops_per_token"] / 1e6,
        ),
        named("tokens, M"),
        named("word ppl")._replace(digits=1),
    ),
    baseline=LSTM,
)
