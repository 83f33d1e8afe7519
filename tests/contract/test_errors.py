"""Errors that name what the user gave."""

import pytest

from research.contract.errors import UserError, renamed_keys


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("data.fields=a,b", "--fields=a,b"),
        ("set model.data.fields", "set model.data.fields"),
        ("data.fields_of", "data.fields_of"),
        ("of data.fields: no", "of --fields: no"),
        ("no 'a; data.b', data.fields", "no 'a; data.b', --fields"),
    ],
)
def test_an_error_names_what_stands_for_a_key(text, expected):
    """Without the hint about other keys, unless the command takes them."""
    flags, hint = {"data.fields": "--fields"}, "; data.format, or data.fields=a"
    for overrides, end in ((False, ""), (True, "; data.format, or --fields=a")):
        renaming = renamed_keys(flags, overrides=overrides)
        with pytest.raises(UserError) as error, renaming:
            raise UserError(text, hint)
        assert str(error.value) == expected + end
