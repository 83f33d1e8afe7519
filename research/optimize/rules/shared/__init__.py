"""What several optimizers or several schedules have."""
