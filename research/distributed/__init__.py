"""Many devices and processes: sharding, joining, failure detection."""
