"""Objectives that read images beside their captions."""
