"""Weights and configs in Hugging Face's layout: one table a family, read both ways."""

SOURCE = "hf:"
"""How `train.init_from` begins when it names such a model."""
