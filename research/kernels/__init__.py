"""Attention kernels, behind plain functions of arrays."""
