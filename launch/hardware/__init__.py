"""What accelerators and TPU slices are."""
