"""Networks that read entities beside the tokens of a text."""
