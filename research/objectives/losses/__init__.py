"""Loss functions: they return weighted sums and weights, never means."""
