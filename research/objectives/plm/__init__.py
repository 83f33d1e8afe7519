"""Permuted language modelling (XLNet)."""
