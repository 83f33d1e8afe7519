"""Text that a trained network writes: continued, translated, or filled in."""
