"""Networks with one part for texts and one for images."""
