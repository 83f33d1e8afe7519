"""Meanings of exp(score) of a text: the values of `Objective.score_methods`."""

LIKELIHOOD = "likelihood"
"""p(text), by the chain rule."""
PSEUDO_LIKELIHOOD = "pseudo-likelihood"
"""The product of p(token | others)."""
ENERGY = "energy"
"""exp(-energy) of a discriminator, which is not a probability of the text."""
BOUND = "lower bound of the likelihood"
"""At most p(text) (Ou et al. 2024), estimated by sampling."""
MEANINGS = (LIKELIHOOD, PSEUDO_LIKELIHOOD, ENERGY, BOUND)
