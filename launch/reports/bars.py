"""Curves as bars of characters, for a terminal."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

BARS = "▁▂▃▄▅▆▇█"
NOT_FINITE = "×"
"""Shown where a value is NaN or infinite, for example if a run diverged."""
MOST_BARS = 40


def curve_bars(curves: Sequence[Mapping[float, float]]) -> Iterator[str]:
    """One line of bars for each curve (x -> y), all on the same scale.

    The horizontal axis runs from 0 to the largest x of all curves; the bars run from
    the lowest finite y to the highest.
    """
    values = np.array([value for curve in curves for value in curve.values()])
    finite = values[np.isfinite(values)]
    low, high = (finite.min(), finite.max()) if finite.size else (0.0, 1.0)
    last = max(max(curve) for curve in curves)
    for curve in curves:
        points = np.linspace(last / MOST_BARS, last, MOST_BARS)
        inside = (points >= min(curve)) & (points <= max(curve))
        with np.errstate(invalid="ignore"):  # between infinite values
            shown = np.interp(points, [*curve], [*curve.values()])
        levels = (shown - low) / ((high - low) or 1.0) * (len(BARS) - 1)
        bars = "".join(
            _bar(level) if drawn else " "
            for level, drawn in zip(levels, inside, strict=True)
        )
        known = [*curve.values()]
        yield f"{bars} {known[0]:.4g} to {known[-1]:.4g}"


def _bar(level: float) -> str:
    return BARS[round(float(level))] if np.isfinite(level) else NOT_FINITE
