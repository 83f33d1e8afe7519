"""Networks with a part for images beside that for texts."""
