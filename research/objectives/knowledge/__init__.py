"""Objectives on knowledge graphs, and on texts with knowledge about their words."""
