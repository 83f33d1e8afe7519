"""Passages of documents, and which of them a question is about."""
