"""Networks that read entities in addition to the tokens of a text."""
