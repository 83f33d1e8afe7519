"""A trained network and its vocabulary, opened for use on texts."""
