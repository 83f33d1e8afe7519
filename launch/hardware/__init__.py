"""Accelerators, TPU slices, and train steps that are compiled for them."""
