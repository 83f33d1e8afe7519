"""Code that schedules of masked diffusion share."""
