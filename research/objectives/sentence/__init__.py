"""Objectives that classify whole texts or each token of a corpus."""
