"""The program of a run: parameters, compiled steps, phases, and where they start."""
