"""Several objectives in one: added up, alternating, or on packed rows."""
