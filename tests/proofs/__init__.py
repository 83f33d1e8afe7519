"""Long proofs, which make targets run: faults, parity, compilation, mutation."""
