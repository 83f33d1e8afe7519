"""Where text comes from, and how it is cut into sentences and words."""
