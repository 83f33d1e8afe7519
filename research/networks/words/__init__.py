"""Networks of word vectors: tables, convolutions and NNLM."""
