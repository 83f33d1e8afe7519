"""How text is corrupted: what is hidden, replaced or reordered; NumPy, batched."""
