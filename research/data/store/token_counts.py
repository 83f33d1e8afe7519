"""How often each token occurs in a stream: counted once, then read from the cache."""

from pathlib import Path

import numpy as np

from research.data import cache
from research.data.store.stream import Stream

COUNTS_FILE = "counts.npy"


def token_counts(stream: Stream, cache_dir: Path) -> np.ndarray:
    """[V] int64: how often each id occurs in the whole stream, separators included.

    Raises:
      UserError: a token is not in the vocabulary, or the cache cannot be written.
    """

    def create(folder: Path) -> dict:
        np.save(folder / COUNTS_FILE, stream.count_tokens())
        return {}

    def find_damage(folder: Path) -> str:
        count = np.load(folder / COUNTS_FILE)
        if (len(count), count.sum()) == (stream.vocabulary_size, stream.num_tokens):
            return ""
        return f"{COUNTS_FILE} has the counts of another stream"

    folder = cache.get_or_create(
        cache_dir,
        "counts",
        {"stream": stream.fingerprint, "size": stream.vocabulary_size},
        create,
        find_damage=find_damage,
    )
    return np.load(folder / COUNTS_FILE)
