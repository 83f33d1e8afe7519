"""Transformer-XL on enwik8 (Dai et al. 2019): bits of a byte.

    palimpsest sweep --sweep=experiments/sweeps/transformer_xl_enwik8.py \\
        --workdir=runs/enwik8 --config.data.train=enwik8.train.txt \\
        --config.data.valid=enwik8.valid.txt

Question: how much does a deeper network lower the bits of a byte? Bytes are the only
pieces, so any text has a number, compared in sign alone where it is not enwik8.

Departs: documents end at blank lines, and white space between them is not a target.
"""

from experiments.transformer_xl import evaluation
from launch.sweeps import finetuning

FILES = "--config.data.train=enwik8.train.txt --config.data.valid=enwik8.valid.txt"
"""Flags of its files, which `palimpsest claims --rerun` prints."""
NAMES = ("model.layers", "model.width", "model.heads", "model.feedforward")
SHAPES = {
    "smoke": {"12 layers": (2, 80, 2, 320), "24 layers": (4, 80, 2, 320)},
    "quick": {"12 layers": (2, 80, 2, 320), "24 layers": (4, 80, 2, 320)},
    "cpu": {"12 layers": (4, 120, 3, 480), "24 layers": (8, 120, 3, 480)},
    "small": {"12 layers": (6, 256, 4, 1024), "24 layers": (12, 256, 4, 1024)},
    "paper": {"12 layers": (12, 512, 8, 2048), "24 layers": (24, 1024, 8, 3072)},
}
BYTES = {"data.vocabulary": "bytebpe", "data.vocabulary_size": 261, "data.sentinels": 0}
BYTES |= {"data.separator": "none", "model.cutoffs": [], "model.cutoff_divisor": 1}
LENGTHS = ("data.length", "objective.mem_len")


def objective_keys(*lengths: int) -> dict[str, int | bool]:
    """The config's keys of an evaluation."""
    return {f"objective.{key}": value for key, value in evaluation(*lengths).items()}


def stand_in(length: int) -> dict[str, int | bool]:
    """Mems and evaluations of other scales, about as long in rows as the scripts'."""
    lengths = length // 2, 4 * length, 5 * length // 2
    return {"objective.mem_len": length} | objective_keys(*lengths)


PUBLISHED = {  # run_enwik8_base.sh and run_enwik8_large.sh
    "12 layers": dict.fromkeys(LENGTHS, 512)
    | {"train.batch": 22, "train.steps": 400_000}
    | objective_keys(80, 2100, 820),
    "24 layers": dict.fromkeys(LENGTHS, 768)
    | {"train.batch": 64, "train.steps": 400_000}
    | objective_keys(128, 3800, 1000)
    | {"model.dropout": 0.15, "model.attention_dropout": 0.15}
    | {"optimizer.warmup_steps": 4000},
}


def sweep(scale):
    def keys(row, base):
        shape = dict(zip(NAMES, SHAPES[scale][row], strict=True))
        if scale == "paper":
            return BYTES | shape | PUBLISHED[row]
        return BYTES | shape | stand_in(base["data.length"])

    sizes = dict.fromkeys(PUBLISHED, "base")
    name = "transformer-xl-enwik8"
    return finetuning.pretrainings(name, scale, keys=keys, sizes=sizes)
