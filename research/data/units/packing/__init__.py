"""How sentences and documents are put into rows, for several units of text."""
