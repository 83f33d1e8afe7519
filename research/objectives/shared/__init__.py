"""Functions that objectives share; no module here is an objective."""
