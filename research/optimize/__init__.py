"""The optimizer: update rules, schedules, and what wraps them."""
