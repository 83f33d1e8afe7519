"""Denoising autoencoders: an encoder reads noised text, a decoder restores it."""
