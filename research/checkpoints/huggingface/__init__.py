"""Weights and configs in Hugging Face's layout: one table a family, read both ways."""
