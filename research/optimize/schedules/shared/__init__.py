"""What several schedules have."""
