"""The network inputs of objectives, and how objectives share a text or a network."""
