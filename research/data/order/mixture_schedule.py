"""The corpus of each example of a mixture: a deterministic schedule."""

from collections.abc import Callable, Collection
from fractions import Fraction
from math import lcm
from typing import NamedTuple

import numpy as np

from research.contract.errors import UserError

# n examples, T entries of the schedule's period, C corpora of the mixture

MAX_PERIOD = 10_000
"""The most entries of a schedule, for rates without a shorter period."""


class Mixing(NamedTuple):
    """How the rows of a batch are divided among corpora: a value of data.mixing."""

    line: str  # what it is, for users
    run: Callable[[int], int]  # size of a batch -> successive rows of one corpus

    @property
    def depends_on_batch(self) -> bool:
        """Whether `run` depends on the size of a batch."""
        return self.run(1) != self.run(2**20)


MIXINGS = {
    "rows": Mixing("each row is of one corpus", lambda batch_size: 1),
    "batches": Mixing(
        "all rows of a batch are of one corpus (XLM, MASS: one language a batch)",
        lambda batch_size: batch_size,
    ),
}
"""The values of `data.mixing`."""


class MixtureSchedule(NamedTuple):
    """A periodic sequence of corpora, in which each occurs in proportion to its rate.

    An example has a counter in the mixture, and a corpus counter among the examples of
    its corpus. Each entry of the period stands for `run` successive examples.
    """

    corpus: np.ndarray  # [T] int64, the corpus of each entry
    earlier: np.ndarray  # [T] int64, how often that corpus occurs earlier in the period
    count: np.ndarray  # [C] int64, entries of each corpus
    run: int = 1

    def locate(self, counter: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """[n] counter -> its corpus [n] and corpus counter [n]."""
        nth_run, within = np.divmod(counter, self.run)
        period, entry = np.divmod(nth_run, len(self.corpus))
        corpus = self.corpus[entry]
        own_run = period * self.count[corpus] + self.earlier[entry]
        return corpus, own_run * self.run + within

    def counter(self, corpus: np.ndarray, corpus_counter: np.ndarray) -> np.ndarray:
        """[n] corpus and corpus counter -> counter [n]: the inverse of `locate`."""
        own_run, within = np.divmod(corpus_counter, self.run)
        period, nth = np.divmod(own_run, self.count[corpus])
        entry = np.argsort(self.corpus, kind="stable")
        first = np.cumsum(self.count) - self.count
        nth_run = period * len(self.corpus) + entry[first[corpus] + nth]
        return nth_run * self.run + within


def make_schedule(rates: Collection[float], run: int = 1) -> MixtureSchedule:
    """Interleaves corpora so that each is always within one run of its rate.

    Each entry goes to the corpus whose next example is due first, among the corpora
    that it would not put ahead of their rates (Tijdeman 1980). Rates are read as
    decimal numbers and met exactly, unless their period would exceed 10,000: then they
    are met to within one in 10,000, by largest remainders.

    Args:
      rates: [C], each above 0; they are divided by their sum.
      run: examples of one corpus that follow each other.

    Raises:
      UserError: a rate is not above 0, or so small that its corpus would never be read.
    """
    if not all(rate > 0 for rate in rates):
        raise UserError(f"data.mixture: rates must be above 0, not {min(rates)}")
    fractions = [Fraction(str(rate)) for rate in rates]
    fractions = [fraction / sum(fractions) for fraction in fractions]
    period = lcm(*(fraction.denominator for fraction in fractions))
    period = max(min(period, MAX_PERIOD), len(fractions))
    count = np.array([int(fraction * period) for fraction in fractions])
    remainder = [fraction * period % 1 for fraction in fractions]
    order = sorted(
        range(len(remainder)), key=lambda corpus: (-remainder[corpus], corpus)
    )
    count[order[: period - count.sum()]] += 1
    if not count.all():
        raise UserError(
            f"data.mixture: the rate {min(rates)} is less than 1 in {MAX_PERIOD} of all"
        )

    taken = np.zeros_like(count)
    corpus, earlier = np.empty((2, period), np.int64)
    for entry in range(period):
        due = -(-(taken + 1) * period // count)
        due[period * taken >= (entry + 1) * count] = 2 * period  # would be ahead
        chosen = np.argmin(due)
        corpus[entry], earlier[entry] = chosen, taken[chosen]
        taken[chosen] += 1
    assert (taken == count).all()
    return MixtureSchedule(corpus, earlier, count, run)
