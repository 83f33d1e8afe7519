"""Commands, one a module; their parts lie in the folders."""
