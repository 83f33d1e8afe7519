"""From the store to batches, in an order that is a function of the seed."""
