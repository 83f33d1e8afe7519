"""Layouts of rows that several objectives share: specials, pairs, two sides."""
