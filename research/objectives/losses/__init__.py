"""Loss functions, which return weighted sums and weights, never means."""
