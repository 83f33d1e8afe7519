"""From the store to rows of a batch, in an order that is a function of the seed."""
