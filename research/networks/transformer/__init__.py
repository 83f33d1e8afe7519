"""The transformer: its options, blocks, attention and stacks."""
