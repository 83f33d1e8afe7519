"""Chaos: what is killed, moved or robbed of its folder loses nothing."""
