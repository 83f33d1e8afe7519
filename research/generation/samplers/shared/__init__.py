"""Code that several samplers use."""
