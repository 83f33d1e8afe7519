"""How masked_cross_entropy is scored: sums and weights, never means."""
