"""Proofs that make targets run: chaos, fuzz, mutants, parity and compilation."""
