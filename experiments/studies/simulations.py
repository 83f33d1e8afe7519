"""Simulated data sets with a known truth: coverage, level and power of our statistics.

Each cell is NUM_SIMULATIONS sets of scores from a generator that is keyed by the cell.
"""

# N simulations of a block, A arms, S seeds, I items, D bootstrap draws

import zlib
from collections.abc import Callable, Sequence

import numpy as np
from scipy import stats

from research.evaluation.power import Components, power
from research.evaluation.statistics import MeanVariance, mean_squares, mean_variance

NUM_SIMULATIONS, BLOCK = 10_000, 100
NUM_ITEMS, NUM_DRAWS, LEVEL = 100, 500, 0.05
NUM_COMPARISONS = 10
POWER_COMPONENTS = Components(seed=1.0, item=0.25 * NUM_ITEMS, interaction=1.0)
"""Variances of a difference between two arms; each adds half to what they share."""
SHARED_BY_SEED = 1.5
"""Variance of a seed that both arms share: three quarters of that of an arm's seeds."""


def generator(*key: object) -> np.random.Generator:
    """A generator keyed by what a cell is of."""
    return np.random.default_rng(zlib.crc32(repr(key).encode()))


def scores(
    rng: np.random.Generator, shape: tuple[int, ...], parts: Components
) -> np.ndarray:
    """Normal scores [..., S, I] of mean 0 with the given components of variance."""
    *rest, num_seeds, num_items = shape
    seed = np.sqrt(parts.seed) * rng.standard_normal((*rest, num_seeds, 1), np.float32)
    item = np.sqrt(parts.item) * rng.standard_normal((*rest, 1, num_items), np.float32)
    noise = rng.standard_normal(shape, np.float32)
    return seed + item + np.sqrt(parts.interaction) * noise


def components_of(shares: Sequence[float], num_seeds: int) -> Components:
    """Components whose mean has variance 1, of which the shares are parts."""
    seed, item, interaction = np.divide(shares, sum(shares))
    scale = num_seeds * NUM_ITEMS
    return Components(seed * num_seeds, item * NUM_ITEMS, interaction * scale)


def blocks() -> range:
    return range(NUM_SIMULATIONS // BLOCK)


def student_p(gap: np.ndarray) -> np.ndarray:
    """The p-values [N] of Student's test on the seeds' means: items count as fixed."""
    by_seed = gap.mean(-1)
    part = by_seed.var(-1, ddof=1) / by_seed.shape[-1]
    fixed = MeanVariance(part, 0 * part, by_seed.shape[-1] - 1, np.inf)
    return fixed.p_value(gap.mean((-2, -1)))


def satterthwaite_p(gap: np.ndarray) -> np.ndarray:
    """The p-values [N] with Satterthwaite's (1946) degrees of freedom."""
    num_seeds, num_items = gap.shape[-2:]
    df_seeds, df_items = num_seeds - 1, num_items - 1
    squares = np.array(mean_squares(gap))
    total = squares[0] + squares[1] - squares[2]
    parts = squares.T**2 / (df_seeds, df_items, df_seeds * df_items)
    df = total**2 / parts.sum(-1).T
    with np.errstate(invalid="ignore", divide="ignore"):
        t = np.abs(gap.mean((-2, -1))) / np.sqrt(total / (num_seeds * num_items))
    return np.where(total > 0, 2 * stats.t.sf(t, df), 0.0)


def our_p(gap: np.ndarray) -> np.ndarray:
    return mean_variance(gap).p_value(gap.mean((-2, -1)))


TESTS: dict[str, Callable] = {
    "Student, items fixed": student_p,
    "Satterthwaite": satterthwaite_p,
    "ours": our_p,
}


BOOTSTRAPS = {"bootstrap of seeds": False, "multi-bootstrap": True}
"""Name -> whether items are drawn too."""


def covered_by_bootstrap(
    rng: np.random.Generator, gap: np.ndarray, *, draw_items: bool
) -> np.ndarray:
    """Whether percentile intervals [N] contain 0; a block shares its draws."""
    num_seeds, num_items = gap.shape[-2:]
    seed_draws = rng.multinomial(num_seeds, [1 / num_seeds] * num_seeds, NUM_DRAWS)
    if draw_items:
        counts = rng.multinomial(num_items, [1 / num_items] * num_items, NUM_DRAWS)
        by_seed_NSD = gap @ counts.T.astype(np.float32) / num_items
    else:
        by_seed_NSD = np.broadcast_to(gap.mean(-1)[..., None], (*gap.shape[:2], 1))
    means_ND = np.einsum("nsd,ds->nd", *_same_draws(by_seed_NSD, seed_draws))
    low, high = np.quantile(means_ND / num_seeds, [LEVEL / 2, 1 - LEVEL / 2], axis=1)
    return (low <= 0) & (high >= 0)


def _same_draws(by_seed: np.ndarray, seed_draws: np.ndarray) -> tuple:
    shape = (*by_seed.shape[:2], len(seed_draws))
    return np.broadcast_to(by_seed, shape), seed_draws.astype(np.float32)


def coverage(num_seeds: int, shares: Sequence[float]) -> dict[str, float]:
    """Method -> the rate at which its 95 % interval contains the true mean."""
    rng, parts = (
        generator("coverage", num_seeds, shares),
        components_of(shares, num_seeds),
    )
    hits: dict[str, int] = {}

    def count(name: str, covered: np.ndarray) -> None:
        hits[name] = hits.get(name, 0) + int(covered.sum())

    for _ in blocks():
        gap = scores(rng, (BLOCK, num_seeds, NUM_ITEMS), parts)
        for name, draw_items in (
            ("bootstrap of seeds", False),
            ("multi-bootstrap", True),
        ):
            count(name, covered_by_bootstrap(rng, gap, draw_items=draw_items))
        for name, test in TESTS.items():
            count(name, test(gap.astype(np.float64)) > LEVEL)
    return {name: number / NUM_SIMULATIONS for name, number in hits.items()}


def family_errors(num_seeds: int, shares: Sequence[float]) -> dict[str, float]:
    """Method -> the rate of tables of equal arms in which it finds a difference.

    A table compares NUM_COMPARISONS arms with one baseline.
    """
    rng, parts = (
        generator("family", num_seeds, shares),
        components_of(shares, num_seeds),
    )
    errors = dict.fromkeys(
        [*(f"{name}, Holm" for name in TESTS), "ours, uncorrected"], 0
    )
    for _ in blocks():
        shape = BLOCK, 1 + NUM_COMPARISONS, num_seeds, NUM_ITEMS
        arms = scores(rng, shape, parts).astype(np.float64)
        gap = arms[:, 1:] - arms[:, :1]
        for name, test in TESTS.items():
            smallest = test(gap).min(axis=1)  # Holm errs iff it rejects this one
            errors[f"{name}, Holm"] += int((smallest <= LEVEL / NUM_COMPARISONS).sum())
            if name == "ours":
                errors["ours, uncorrected"] += int((smallest <= LEVEL).sum())
    return {name: number / NUM_SIMULATIONS for name, number in errors.items()}


def powers(num_seeds: int, difference: float) -> dict[str, float]:
    """Method -> the rate at which it finds a difference, and what `power` predicts.

    Of a seed's variance the arms share SHARED_BY_SEED, as runs on the same text do.
    """
    rng, parts = generator("power", num_seeds, difference), POWER_COMPONENTS
    arm = Components(*(variance / 2 for variance in parts))
    shared = Components(SHARED_BY_SEED)
    found = {"paired": 0, "unpaired": 0}
    for _ in blocks():
        shape = BLOCK, 2, num_seeds, NUM_ITEMS
        both = scores(rng, shape, arm) + scores(rng, (BLOCK, 1, num_seeds, 1), shared)
        gap = (both[:, 0] - both[:, 1] + difference).astype(np.float64)
        found["paired"] += int((our_p(gap) <= LEVEL).sum())
        first, second = both.mean(-1, dtype=np.float64).transpose(1, 2, 0)
        welch = stats.ttest_ind(first + difference, second, equal_var=False).pvalue
        found["unpaired"] += int((welch <= LEVEL).sum())
    rates = {name: number / NUM_SIMULATIONS for name, number in found.items()}
    sizes = {"num_seeds": num_seeds, "num_items": NUM_ITEMS}
    return rates | {"predicted": power(difference, parts, **sizes)}


def accuracy_coverage(num_seeds: int, seed_sd: float) -> float:
    """Coverage of our interval for a difference of accuracies of some 70 and 75 %.

    An answer is right iff a latent normal score is above 0: items differ (SD 1), arms
    on items (0.3), seeds (`seed_sd`) and single answers (1).
    """
    rng, hits = generator("accuracy", num_seeds, seed_sd), 0
    total_sd, means = np.sqrt(1 + 0.3**2 + seed_sd**2 + 1), np.array([0.75, 0.97])
    truth = np.subtract(*stats.norm.cdf(means / total_sd))
    for _ in blocks():
        shape = BLOCK, 2, num_seeds, NUM_ITEMS
        latent = scores(rng, shape, Components(seed_sd**2, 0.3**2, 1.0))
        latent += rng.standard_normal((BLOCK, 1, 1, NUM_ITEMS), np.float32)
        right = (latent + means[:, None, None] > 0).astype(np.float64)
        gap = right[:, 0] - right[:, 1]
        variance = mean_variance(gap)
        with np.errstate(invalid="ignore"):
            p = variance.p_value(gap.mean((-2, -1)) - truth)
        hits += int((p > LEVEL).sum())
    return hits / NUM_SIMULATIONS


PLATEAU = 10.0
"""How far below the others' mean the seeds on a plateau are, in standard deviations."""


def two_populations(num_seeds: int, rate: float) -> dict[str, float]:
    """Rates of intervals over seeds of which some stay on a plateau.

    Args:
      rate: the rate of a seed to stay there.
    """
    rng = generator("two populations", num_seeds, rate)
    stays = rng.random((NUM_SIMULATIONS, num_seeds)) < rate
    score = rng.standard_normal(stays.shape) - PLATEAU * stays
    half = stats.t.ppf(1 - LEVEL / 2, num_seeds - 1) * score.std(-1, ddof=1)
    half /= num_seeds**0.5
    mixed = stays.any(-1) & ~stays.all(-1)
    own_mean = np.where(stays[:, 0], -PLATEAU, 0.0)
    covers_all = np.abs(score.mean(-1) + PLATEAU * rate) <= half
    covers_own = np.abs(score.mean(-1) - own_mean) <= half
    return {
        "covers the mean": covers_all.mean(),
        "no interval": mixed.mean(),
        "covers its population": covers_own[~mixed].mean(),
    }
