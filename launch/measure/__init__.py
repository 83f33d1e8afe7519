"""Accelerators, TPU slices, and train steps compiled for them."""
