"""Values that a user may write: of every type and magnitude."""

from typing import Any

from hypothesis import strategies as st

WHOLE = (0, 1, -1, 2, 3, 5, 7, 8, 16, 33, 100, 512, 4096)
HUGE = (2**20, 2**31 - 1, 2**31, 2**53, 2**63, 2**70, 10**400, -(2**31), -(2**70))
REAL = ("0.5", "0.1", "1.0", "1.5", "-1.5", "-0.0", "0.999999999", "1e5", "1e-300")
NOT_FINITE = ("nan", "inf", "-inf", "1e300", "1e999")
WORDS = ("", " ", "a", "é", "a\nb", "a\x1bb", "\udcff", "a" * 300, "%s", "{x}", "$x^$")
PATHS = ("/", ".", "../x", "~", "/nonexistent/x", "gs:/x", "a:b", "README.md", "*")
JSON = (
    "null",
    "true",
    "[]",
    "{}",
    "[1]",
    '{"a": 1}',
    '{"": 1}',
    '{"a": -1}',
    '{"a": NaN}',
    '{"a": "x"}',
    '{"a": {"a": 1}}',
    '[[0.5, {"data.length": 16}]]',
    '[[0.5, {"data.length": -1}]]',
    '[[0.5, {"train.batch": "x"}]]',
    '[[0.5, {"train": {"batch": 3}}]]',
    "[[NaN, {}]]",
    '[[1, {"model.dropout": 2}]]',
    "[[1e400, {}]]",
    '{"mlm": {}}',
    '{"mlm": {"rate": "x"}}',
    '{"mlm": {"boundary_targets": 1.5}}',
    '{"mlm": {"weight": -1}}',
    '{"mlm": {"mixing_rate": [[0, 1], [5, 0]]}}',
    '{"lm": {}, "mlm": {}}',
    '{"mlm": [1]}',
    '{"mlm": {"objective": "nope"}}',
    '{"mlm": {"objective": 3}}',
    "[" * 5000,
    '{"a":' * 5000,
    "9" * 5000,
    "[1",
)

numbers = st.sampled_from([*map(str, WHOLE), *REAL, *map(str, HUGE), *NOT_FINITE])
words = st.sampled_from(WORDS)
texts = st.one_of(words, st.sampled_from(PATHS))
anything = st.one_of(numbers, texts, st.sampled_from(JSON), st.text(max_size=5))


def value_of(field: Any) -> st.SearchStrategy[str]:
    """Text for a config field: near to what it declares, or anything."""
    metadata, near = field.metadata, []
    if "values" in metadata:
        near.append(st.sampled_from(metadata["values"]))
    if type(field.default) is bool:
        near.append(st.sampled_from(("true", "false")))
    for bound in metadata.get("bounds", {}).values():
        steps = (0, 1, -1) if type(field.default) is int else (0, 1e-3, -1e-3, 1e-12)
        near.append(st.sampled_from([str(bound + step) for step in steps]))
    return st.one_of(*near, anything) if near else anything
