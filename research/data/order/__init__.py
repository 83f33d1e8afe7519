"""The order of examples: permutations, mixtures and buckets of lengths."""
