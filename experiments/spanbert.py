"""SpanBERT (Joshi et al. 2020): spans of words, recovered also from their boundaries.

python -m launch.train --config=experiments/spanbert.py:tiny --workdir=runs/spanbert

Hidden are spans of whole words until 15 % of the tokens are; lengths are geometric
(0.2), up to 10 words; mask, random or stay is drawn once for a span. Each token of a
span is asked for twice: where it stands, and of the states at the two clear places
around the span with its place in it. A row is whole sentences of one document.

Look at: valid/sbo beside valid/mlm; objective.boundary=0, and objective.unit=token with
replace=token, are the rows of the paper's Tables 6 and 7.

Departs: spans end with a whole word where the budget ends (released: mid-word); other
tokens are uniform (released: drawn from the corpus). Sizes are the released models'.
"""

from experiments import base

SIZES = ("tiny", "small", "base", "large")


def get_config(size: str = "small"):
    config = base.get_config(size)
    config.data.vocabulary = "wordpiece"
    config.objective.update(name="mlm", unit="span", replace="span", rounding="up")
    config.objective.update(format="doc_sentences", boundary=15)
    config.model.update(norm_placement="post", norm_epsilon=1e-12, dropout=0.1)
    config.model.init = "truncated"
    config.optimizer.update(beta2=0.999, epsilon=1e-8, weight_decay=0.1)
    if size in base.PUBLISHED:
        config.data.vocabulary_size = 28_996
        config.train.update(steps=2_400_000, batch=256)
        config.optimizer.update(learning_rate=1e-4, warmup_steps=10_000)
    return config
