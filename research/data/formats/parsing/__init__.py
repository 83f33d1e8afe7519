"""What parsers of several formats share."""
