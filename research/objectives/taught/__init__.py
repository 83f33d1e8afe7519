"""Objectives whose targets come from a teacher."""
