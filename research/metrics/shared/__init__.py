"""What several metrics use."""
