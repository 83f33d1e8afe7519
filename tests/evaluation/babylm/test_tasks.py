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


TASKS_BY_NAME = {name: TASKS.part_class(name, "")() for name in TASKS.names()}


@pytest.mark.parametrize(
    "name", [n for n, t in TASKS_BY_NAME.items() if hasattr(t, "read")]
)
def test_a_folder_without_rows(tmp_path, name):
    task = TASKS_BY_NAME[name]
    with pytest.raises(UserError, match=rf"has no rows of {task.official} in"):
        task.read(tmp_path, RULES[task.rules[-1]])


@pytest.mark.parametrize("rules", RULES.values(), ids=RULES)
def test_a_name_in_the_collated_file_is_of_one_task(rules):
    tasks = [task for task in TASKS_BY_NAME.values() if rules.name in task.rules]
    names = [name for task in tasks for name in task.collated(rules)]
    assert names and len(names) == len({*names})
    assert all({*task.rules} <= RULES.keys() for task in tasks)
