"""What a run is worth, and how sure one can be of it."""
