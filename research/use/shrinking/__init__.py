"""Makes a trained network smaller: by heads, layers, weights and integers."""
