"""Supervised tasks: classes, tags, answers and texts."""
