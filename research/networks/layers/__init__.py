"""The layers of blocks, embeddings and heads."""
