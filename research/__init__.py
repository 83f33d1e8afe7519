"""One train loop for every language-model pretraining objective."""
