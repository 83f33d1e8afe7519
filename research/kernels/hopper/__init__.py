"""Interval attention for NVIDIA's Hopper: kernels of one warpgroup a block."""
