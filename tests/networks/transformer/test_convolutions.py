"""Layers before a patch's embedding: convolutions over its pixels."""

import jax
import numpy as np
import pytest
from jax import lax

from research.contract.errors import UserError
from research.networks.transformer import feature_layers
from research.networks.transformer.feature_layers import convolutions
from tests.testing.model_options import model_options


@pytest.mark.parametrize("side", [6, 5])
def test_windows_times_a_matrix_are_a_convolution(side):
    rng = np.random.default_rng(0)
    maps = rng.normal(size=(2, side, side, 3)).astype(np.float32)
    kernel = rng.normal(size=(3, 3, 3, 4)).astype(np.float32)
    expected = lax.conv_general_dilated(
        maps, kernel, (2, 2), [(1, 1)] * 2, dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    found = convolutions.windows(jax.numpy.array(maps)) @ kernel.reshape(27, 4)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_what_is_no_square_of_pixels_is_refused():
    options = model_options(feature_layers="convolutions")
    projection = feature_layers.FOLDER.make(vars(options), "feature_layers")
    vectors = np.zeros((1, 2, 3 * 4 * 2), np.float32)
    with pytest.raises(UserError, match=r"3 x P x P values; these vectors have 24"):
        projection.project(vectors, {}, options, 8)
