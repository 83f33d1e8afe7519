"""Code that several optimizers share."""
