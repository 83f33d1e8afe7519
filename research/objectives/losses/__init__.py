"""How recovery is scored: sums and weights, never means."""
