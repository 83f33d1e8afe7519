"""How objectives arrange text as network inputs, and share one text or network."""
