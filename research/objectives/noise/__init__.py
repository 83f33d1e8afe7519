"""Noise that several objectives share: masks, spans, and the rows that score a text."""
