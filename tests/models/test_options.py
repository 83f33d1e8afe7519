"""Options: values that do not fit together are refused."""

import pytest

from research.errors import UserError


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"width": 30, "heads": 4}, r"model\.heads is 4.*divide model\.width 30"),
        ({"position": "rotary", "width": 6}, r"rotary needs an even width"),
        ({"position": "relative", "width": 15, "heads": 3}, r"an even model\.width"),
        (
            {"token_type_encoding": "relative"},
            r"model\.token_types of at least 2, not 0",
        ),
    ],
)
def test_the_error_names_the_wrong_key(changes, message, make_options):
    with pytest.raises(UserError, match=message):
        make_options(**changes)
