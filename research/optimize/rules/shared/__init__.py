"""What several optimizers have."""
