"""Objectives that tell real tokens, entities or spans from replaced ones."""
