"""Backends of sweeps: where their jobs run, and what all share."""
