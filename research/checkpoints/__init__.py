"""Checkpoints: saved, verified, restored in whole or in part."""
