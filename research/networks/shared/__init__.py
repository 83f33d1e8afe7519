"""Layers, options and the protocol that all networks share."""
