"""Colours and histograms of gradients of a patch's cells."""

import jax.numpy as jnp
import numpy as np
import pytest

from research.networks.transformer.feature_layers import gradients


@pytest.mark.parametrize("turns", [0.0, 2.0, 2.25, 8.5])
def test_a_ramp_counts_for_the_angles_beside_its_own(turns):
    """Also where these are the last and the first one."""
    angle = turns * np.pi / gradients.ANGLES
    down, right = np.mgrid[:12, :12]
    ramp = down * np.sin(angle) + right * np.cos(angle)
    grey = np.repeat(ramp[..., None], 3, axis=-1).astype(np.float32)
    counts = np.square(gradients.histograms(jnp.array(grey), 3))
    assert counts.mean() == pytest.approx(1)
    low = int(turns)
    expected = np.zeros(gradients.ANGLES)
    expected[[low, (low + 1) % gradients.ANGLES]] = 1 - (turns - low), turns - low
    middle = counts[1, 1] / counts[1, 1].sum()
    np.testing.assert_allclose(middle, expected, atol=1e-5)


def test_the_colour_of_the_largest_gradient_counts_and_even_patches_have_none():
    patch = np.zeros((6, 6, 3), np.float32)
    assert not gradients.histograms(jnp.array(patch), 3).any()
    patch[..., 0] = np.arange(6)[:, None]  # downwards
    expected = gradients.histograms(jnp.array(patch), 3)
    patch[..., 2] = 0.5 * np.arange(6)
    np.testing.assert_allclose(gradients.histograms(jnp.array(patch), 3), expected)


@pytest.mark.parametrize("cells", [1, 2, 4, 3, 12])
def test_cells_that_do_not_divide_a_side_share_the_pixels_between_them(cells):
    pixels = np.random.default_rng(0).random((2, 4, 4, 3)).astype(np.float32)
    fine = pixels.repeat(cells, axis=1).repeat(cells, axis=2)
    expected = fine.reshape(2, cells, 4, cells, 4, 3).mean(axis=(2, 4))
    found = gradients.pooled(jnp.array(pixels), cells)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
