"""Sweeps: programs that `launch.sweep` runs, as it runs a file of the user's own."""
