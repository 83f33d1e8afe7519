"""BabyLM's scores of a mixture beside both of its halves, at equal tokens.

    palimpsest sweep --sweep=experiments/sweeps/babylm_equal_tokens.py --scale=quick \\
        --workdir=runs/babylm_equal_tokens --config.data.train='corpus/*.txt' \\
        --config.data.valid='dev/*.txt'
    palimpsest babylm --workdir=runs/babylm_equal_tokens/ID \\
        --data=evaluation_data --to=results

Question: is GPT-BERT's mixture (Charpentier and Samuel 2024) above its two halves, LM
and masked LM, and above masked diffusion by the challenge's scores? All rows have the
network, text and optimizer of `experiments/babylm.py`, and read the same number of
tokens. The first seeds of all rows come first, so that a sweep that is stopped has
whole columns.

Departs from GPT-BERT in network, optimizer and mask rate, which are equal for all rows:
`experiments/gpt_bert.py` has the published ones.
"""

from collections.abc import Iterator

PARTS = {
    "causal": {"objective": "lm", "documents": "apart"},
    "masked": {
        "objective": "mlm",
        "format": "shifted",
        "predict_at": "previous",
        "rate": 0.3,
        "share": 15.0,
    },
}
ROWS = {
    "LM": {},
    "GPT-BERT": {"objective.name": "hybrid", "objective.parts": PARTS},
    "masked diffusion": {"objective.name": "masked_diffusion"},
    "masked LM": {"objective.name": "mlm", "objective.rate": 0.3},
}
SEEDS = 3
SIZES = {"small": "small", "paper": "base"}
"""Scale -> the size of `experiments/babylm.py`; others: tiny."""
STEPS = {"smoke": 20, "quick": 2_000}
"""Scale -> its steps, at quick for 8.2 million tokens; others: those of the size."""


def sweep(scale: str) -> Iterator[tuple]:
    budget = {}
    if steps := STEPS.get(scale):
        budget = {"train.steps": steps, "optimizer.warmup_steps": steps // 20}
    for seed in range(SEEDS):
        for row, keys in ROWS.items():
            yield (
                f"experiments/babylm.py:{SIZES.get(scale, 'tiny')}",
                keys | budget | {"seed": seed},
                (row, "pretraining"),
            )
