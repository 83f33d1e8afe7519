"""From a trained network to a smaller one: by heads, layers, weights and integers."""
