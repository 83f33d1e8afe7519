"""How text is hidden, replaced and reordered; NumPy on whole batches."""
