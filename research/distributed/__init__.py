"""Many devices and processes: sharding, process discovery, failure detection."""
