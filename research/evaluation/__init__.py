"""Evaluates runs: statistics of their results."""
