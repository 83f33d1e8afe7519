"""Layers that blocks, embeddings and heads are made of."""
