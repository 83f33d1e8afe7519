"""The contracts between the parts: batch, fields, parts, names and errors."""
