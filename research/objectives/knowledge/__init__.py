"""Objectives on knowledge graphs, and on texts with what they know of words."""
