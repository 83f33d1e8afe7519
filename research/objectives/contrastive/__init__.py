"""Objectives that distinguish real tokens, entities or spans from replaced ones."""
