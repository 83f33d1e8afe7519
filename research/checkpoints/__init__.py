"""Checkpoints: saved, verified, and restored in whole or in part."""
