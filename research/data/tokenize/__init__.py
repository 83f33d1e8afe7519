"""Vocabularies: trained once, loaded by every run."""
