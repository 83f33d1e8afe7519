"""Diffusion: tokens are masked at random rates and predicted from the others."""
