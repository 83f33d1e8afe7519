"""Sweeps: trials, their results and their state."""
