"""The seqio registry's side; the only importer of TensorFlow and seqio."""
