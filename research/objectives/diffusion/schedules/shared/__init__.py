"""What schedules of masked diffusion share."""
