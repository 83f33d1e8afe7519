"""Code that several schedules share."""
