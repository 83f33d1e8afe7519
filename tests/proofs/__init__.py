"""Long tests that make targets run: faults, gradient parity, compilation, mutation."""
