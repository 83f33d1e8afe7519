"""SpanBERT (Joshi et al. 2020): masked spans, predicted also from their boundaries.

palimpsest train --config=experiments/spanbert.py:tiny --workdir=runs/spanbert

Spans that begin with the word of a random token are masked up to 15 % of the tokens;
the number of words is geometric (p = 0.2), up to 10; adjacent spans are merged; mask,
random or keep is drawn once per span. Each of the first 15 tokens of a span is also
predicted from the states of the two unmasked tokens around the span and its offset in
the span, unless one of these is a special token. A row is whole sentences of one
document.

Look at: valid/sbo and valid/mlm; objective.boundary_targets=0, and
objective.unit=token with draw_unit=token, are the rows of the paper's Tables 6 and 7.

Sizes are the released models'.

Departs (docs/fidelity.md has the values): model.token_types; optimizer.weight_decay;
optimizer.clip_norm; sentences longer than a row; gradient that epsilon is compared
with; rate of the first step, in parts of peak / warm-up.
"""

from research.config import base

SIZES = ("tiny", "small", "base", "large")


def get_config(size: str = "small"):
    config = base.get_config(size)
    config.data.vocabulary = "wordpiece"
    config.objective.update(name="mlm", unit="span", draw_unit="span", rounding="up")
    config.objective.update(format="doc_sentences", boundary_targets=15)
    config.objective.random_tokens = "corpus"
    config.model.update(norm_placement="post", norm_epsilon=1e-12, dropout=0.1)
    config.optimizer.update(beta2=0.999, epsilon=1e-8, weight_decay=0.1)
    config.optimizer.epsilon_place = "before"
    config.optimizer.update(decay_from="start", decay_params="all")
    if size in base.PUBLISHED:
        config.data.vocabulary_size = 28_996
        config.train.update(steps=2_400_000, batch=256)
        config.optimizer.update(learning_rate=1e-4, warmup_steps=10_000, clip_norm=0.0)
    return config
