"""Masked language modelling, of one text or of a parallel one."""
