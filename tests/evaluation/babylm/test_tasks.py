"""Files of tasks that are missing or have another form are refused in one line."""

import pytest

from research.contract.errors import UserError
from research.evaluation.babylm.rules import RULES
from research.evaluation.babylm.tasks import TASKS
from research.evaluation.babylm.tasks.aoa import read_contexts
from research.evaluation.babylm.tasks.reading import read_rows


@pytest.mark.parametrize(
    ("read", "text", "words"),
    [
        (read_contexts, None, "data: no such file"),
        (read_contexts, '{"dog": [{"text": "a"}]}', r'data must be \{"word": \[\{"con'),
        (read_contexts, '["dog"]', r'data must be \{"word": \[\{"context": '),
        (read_rows, None, "data: no such file"),
        (read_rows, "item,word\na,b\n", "data has no column .*prev_item, prev_length"),
    ],
)
def test_a_file_of_another_form(tmp_path, read, text, words):
    if text is not None:
        (tmp_path / "data").write_text(text)
    with pytest.raises(UserError, match=words):
        read(tmp_path / "data")


def test_a_folder_without_rows(tmp_path):
    blimp = TASKS.part_class("blimp", "")()
    with pytest.raises(UserError, match=r"has no rows of blimp in \*\.jsonl"):
        blimp.read(tmp_path, RULES["babylm_2026"])
