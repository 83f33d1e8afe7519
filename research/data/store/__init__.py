"""Tokenised text on disk, and indices of the examples in it."""
