"""Recurrent networks: LSTMs in one or two directions, alone and as encoder-decoder."""
