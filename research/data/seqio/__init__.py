"""Registers our data with seqio, reads any seqio task; only it imports TensorFlow."""
