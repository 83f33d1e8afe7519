"""Language models that read from left to right."""
