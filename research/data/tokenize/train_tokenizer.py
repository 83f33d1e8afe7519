"""Training of a vocabulary on lines chosen by hash; machine-independent."""

import sys
from pathlib import Path

from research.data.read.corpus import Corpus
from research.data.tokenize import (
    model_files,
    tokenizer_models,
    tokenizer_sample,
    tokenizer_types,
)
from research.data.tokenize.tokenizer_types import Options, SizeError, special_pieces

TRAINED_TYPES = tokenizer_types.trained()
"""Types that can be trained."""
WORD_TYPES = tuple(n for n in TRAINED_TYPES if tokenizer_types.named(n).has_words)
"""Those whose pieces are words."""
TOKENIZER_TYPES = tuple(n for n in TRAINED_TYPES if n not in WORD_TYPES)
"""Those whose pieces are parts of words."""
VERSION = 2
"""Raise it when a change here trains another vocabulary on the same text."""

LARGE_BYTES = 2**26
"""Bytes of text from which on the cost of a training is printed."""


def train(
    corpus: Corpus, options: Options, cache_dir: Path | None = None
) -> tokenizer_models.TokenizerModel:
    """A trained tokenizer model.

    Prints how much time and memory the training takes, if that is much.

    Args:
      cache_dir: where processes that share the work keep the sampled lines of the work
        shards of a large corpus; None: these are not kept.

    Raises:
      UserError: the corpus has no text, too few pieces, or too many characters.
    """
    name, size, sentinels, sampling, _ = options
    tokenizer_type = tokenizer_types.named(name)
    least, use = tokenizer_type.least
    least += len(special_pieces(sentinels))
    if size < least:
        raise SizeError(size, f"give at least {least}, for {use}")
    print(
        f"training a {name} vocabulary of {size} on corpus {corpus.name!r}",
        file=sys.stderr,
    )
    lines = tokenizer_sample.sample_lines(corpus, sampling, cache_dir)
    _print_cost(tokenizer_type, lines.num_bytes)
    data = tokenizer_type.train(lines, options, corpus)
    is_sentencepiece = tokenizer_type.sentencepiece_type > 0
    return model_files.parse_model(data, ".model" if is_sentencepiece else ".json")


def _print_cost(tokenizer_type: tokenizer_types.TokenizerType, num_bytes: int) -> None:
    """Prints what the training takes, if its text is large."""
    assert tokenizer_type.cost, "its name is no value of data.vocabulary"
    if num_bytes >= LARGE_BYTES:
        seconds, memory = (each * num_bytes / 1e6 for each in tokenizer_type.cost)
        print(
            f"it is trained on {num_bytes / 1e6:,.0f} MB of text, which takes about "
            f"{seconds / 60:.0f} min of one core and {memory / 1e3:.1f} GB of memory; "
            "data.vocabulary_sample sets how much text is taken at most",
            file=sys.stderr,
        )
