"""Code that parsers of several formats share."""
