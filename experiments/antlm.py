"""AntLM (Yu et al. 2024): a causal and a masked language model, in turns.

palimpsest train --config=experiments/antlm.py:tiny --workdir=runs/antlm

Of 24 epochs the first four and the last four are causal, the 16 in between are masked:
the paper's best alternation for a decoder. Attention and loss change; the parameters
are the same. Here these are fractions of the steps, which need not be epochs.

Look at: only masked rows, experiments/mlm.py, and only causal ones, lm.py, after as
many steps. Other alternations are fractions in --config.objective.parts, as in
docs/since_2020.md.
"""

from research.config import base

SIZES = ("tiny", "small")


def get_config(size: str = "small"):
    config = base.get_config(size)
    first, last = (round(config.train.steps * part / 24) for part in (4, 20))
    causal = {"objective": "lm", "share": [[0, 1.0], [first, 0.0], [last, 1.0]]}
    masked = {"objective": "mlm", "share": [[0, 0.0], [first, 1.0], [last, 0.0]]}
    config.objective.update(name="hybrid", parts={"causal": causal, "masked": masked})
    config.model.update(position="rotary", norm="rmsnorm", activation="swiglu")
    config.model.output_head = "transform"
    return config
