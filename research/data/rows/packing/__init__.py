"""Packing of sentences and documents into rows, for several units of text."""
