"""Registers our data with seqio, reads any seqio task; alone imports TensorFlow."""
