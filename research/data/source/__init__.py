"""Batches of examples: built from text, or read as they were saved."""
