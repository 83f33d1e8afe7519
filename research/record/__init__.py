"""The record of a run in its workdir: config, metrics, provenance, result."""
