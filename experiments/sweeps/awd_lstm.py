"""AWD-LSTM (Merity et al. 2018) beside Transformers of as many parameters or FLOPs.

    palimpsest sweep --sweep=experiments/sweeps/awd_lstm.py --scale=quick \\
        --config.data.corpus='wiki/*.jsonl.gz' --workdir=runs/awd_lstm
    palimpsest table --table=experiments/tables/awd_lstm.py \\
        --workdir=runs/awd_lstm

Question: at one small budget, which network predicts words better? All rows read the
same words in the same order, in streams that go on from batch to batch: the LSTM keeps
its state, a Transformer the layers' inputs at as many positions as a row has
(Transformer-XL's mems, with relative positions). With tied tables both have 6 FLOPs a
token for each parameter; a Transformer has those of attention beside them, so that one
of as many FLOPs has fewer parameters.

Departs: less than one pass of the text underfits, so that the LSTM drops and penalises
nothing, and begins with a wider range of its table (see sweeps/ulmfit.py); all have
Adam, at rates that were picked on a seed that is not among the table's, among three
each for the LSTM and for the Transformer of as many parameters; gradients are clipped
at each experiment's own norm, 0.25 and 1.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from experiments.sweeps import ulmfit

LSTM = "AWD-LSTM"
EQUAL_PARAMETERS = "Transformer, equal parameters"
EQUAL_FLOPS = "Transformer, equal FLOPs"
LENGTH = 70


class Row(NamedTuple):
    """An experiment with its own keys."""

    experiment: str
    keys: dict[str, Any]


def _transformer(layers: int, feedforward: int, rate: float) -> Row:
    keys = {"data.vocabulary": "words", "data.separator": "lines", "data.sentinels": 0}
    keys |= {"objective.mem_len": LENGTH, "model.position": "relative"}
    keys |= {"model.output_head": "bias", "model.width": 64, "model.heads": 4}
    keys |= {"model.layers": layers, "model.feedforward": feedforward}
    return Row("experiments/lm.py", keys | {"optimizer.learning_rate": rate})


def _lstm(rate: float) -> Row:
    keys = ulmfit.CPU | ulmfit.UNDERFITTING | {"model.table_range": 1.0}
    keys["optimizer.learning_rate"] = rate
    return Row("experiments/awd_lstm.py", keys)


ROWS = {
    LSTM: _lstm(1e-2),
    EQUAL_PARAMETERS: _transformer(5, 272, 3e-3),
    EQUAL_FLOPS: _transformer(3, 192, 3e-3),
}
SHARED = {"data.length": LENGTH, "data.vocabulary_size": 8_000, "train.batch": 32}
SHARED |= {"optimizer.name": "adam", "optimizer.beta1": 0.9, "optimizer.beta2": 0.99}
SHARED |= {"optimizer.schedule": "linear", "optimizer.warmup_steps": 20}
STEPS = {"smoke": 50, "quick": 300, "cpu": 3_000, "small": 4_000, "paper": 40_000}
"""By scale, of the same networks: larger ones would need rates of their own."""
SEEDS = 3


def sweep(scale: str) -> Iterator[tuple]:
    steps = STEPS[scale]
    own = SHARED | {"train.steps": steps, "train.eval_every": 0}
    own["train.log_every"] = max(10, steps // 20)
    for seed in range(SEEDS):
        for name, row in ROWS.items():
            keys = row.keys | own | {"seed": seed}
            yield row.experiment, keys, (name, "pretraining")
