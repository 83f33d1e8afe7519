"""Sweeps: a trial, the plan of a sweep's trials, and their status."""
