"""Objectives that read images together with their captions."""
