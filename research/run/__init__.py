"""A run made ready: its setup, state, optimizer, cost and what it writes."""
