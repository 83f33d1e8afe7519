"""Code that several readers of pictures share."""
