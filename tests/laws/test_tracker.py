"""The contract of every tracker, found by listing the folder, without its package.

A stand-in takes any call in place of the package, and keeps names and arguments; what a
tracker prints, or writes to the workdir, counts as well.
"""

import math
import sys
import types

import pytest
from etils import epath

from launch.config_starts import check_needed
from research.config import base
from research.contract.errors import UserError
from research.record.trackers import FOLDER, Tracker, open_tracker

CONFIG = {"data.length": 73519, "objective.name": "an objective", "train.lists": [4, 8]}
STEP, VALUES = 70431, {"train/loss": 0.15625, "learning_rate": 0.03125}

each_tracker = pytest.mark.parametrize("name", FOLDER.names())


class StandIn:
    """A package, or anything that it returns.

    Args:
      calls: what is called is appended here, with its arguments.
      is_there: whether what it is asked for exists.
    """

    def __init__(self, calls, is_there, name=""):
        self._calls, self._is_there, self._name = calls, is_there, name

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return StandIn(self._calls, self._is_there, f"{self._name}.{name}")

    def __call__(self, *args, **keys):
        self._calls.append((self._name, args, keys))
        return StandIn(self._calls, self._is_there, f"{self._name}()")

    def __getitem__(self, key):
        return StandIn(self._calls, self._is_there, f"{self._name}[{key}]")

    def __bool__(self):
        return self._is_there

    def __repr__(self):
        return self._name


class Broken(types.ModuleType):
    """A package of which nothing works."""

    def __getattr__(self, name):
        raise RuntimeError("no key is configured\nmore")


class Seen:
    """What a tracker has told so far, as text."""

    def __init__(self, name, folder, monkeypatch, capfd, *, is_there=False):
        self._calls, self._folder, self._capfd, self._printed = [], folder, capfd, ""
        folder.mkdir(parents=True, exist_ok=True)
        if package := FOLDER.part_class(name, "train.track").package:
            stand_in = StandIn(self._calls, is_there)
            monkeypatch.setitem(sys.modules, package, stand_in)

    def open(self, name, config=CONFIG):
        return open_tracker(f"{name}:mine", epath.Path(self._folder), config)

    def __str__(self):
        self._printed += "".join(self._capfd.readouterr())
        files = sorted(path for path in self._folder.rglob("*") if path.is_file())
        written = [path.read_bytes().decode(errors="replace") for path in files]
        return "\n".join([*map(repr, self._calls), self._printed, *written])


@pytest.fixture
def seen(tmp_path, monkeypatch, capfd):
    """(name, folder, is_there) -> what that tracker tells."""

    def make(name, folder="run", *, is_there=False):
        return Seen(name, tmp_path / folder, monkeypatch, capfd, is_there=is_there)

    return make


@each_tracker
def test_it_is_a_tracker_that_imports_its_package_where_it_begins(name, monkeypatch):
    cls = FOLDER.part_class(name, "train.track")
    assert issubclass(cls, Tracker) and cls.__doc__
    module = sys.modules[cls.__module__]
    assert not cls.package or cls.package not in vars(module)


@each_tracker
def test_a_run_that_begins_has_its_config(name, seen):
    told = seen(name)
    told.open(name).close()
    for key, value in CONFIG.items():
        assert key in str(told) and str(value) in str(told), key


@each_tracker
def test_metrics_have_their_names_values_and_step(name, seen):
    told = seen(name)
    tracker = told.open(name, {})
    tracker.write(STEP, VALUES)
    tracker.write(STEP + 1, {"valid/loss": 2.71875})
    tracker.close()
    for each in (*VALUES, *VALUES.values(), STEP, STEP + 1, "valid/loss", 2.71875):
        assert str(each) in str(told), each


@each_tracker
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_value_that_is_not_finite_keeps_no_other_back(name, value, seen):
    told = seen(name)
    tracker = told.open(name, {})
    tracker.write(STEP, {"grad_norm": value, **VALUES})
    tracker.close()
    for each in (*VALUES, *VALUES.values()):
        assert str(each) in str(told), each


@each_tracker
def test_a_table_has_its_name_columns_rows_and_step(name, seen):
    told = seen(name)
    tracker = told.open(name, {})
    columns, rows = ("text", "prediction"), [["one word", "B-x"], ["two | 二", "O"]]
    tracker.write_table(STEP, "valid/predictions", columns, rows)
    tracker.write_table(STEP, "valid/none", columns, [])
    cells = [cell for row in rows for cell in row]
    tracker.close()
    for each in ("valid/predictions", "valid/none", *columns, *cells, STEP):
        assert str(each) in str(told), each


@each_tracker
def test_a_second_close_raises_nothing(name, seen):
    tracker = seen(name).open(name)
    tracker.write(STEP, VALUES)
    tracker.close()
    tracker.close()


@each_tracker
@pytest.mark.parametrize("is_there", [False, True])
def test_a_workdir_is_one_run(name, is_there, seen):
    """Opened again it is asked for alike; another workdir is another run."""
    found = []
    for folder in ("run", "run", "other"):
        told = seen(name, folder, is_there=is_there)
        told.open(name, {}).close()
        found.append(str(told))
    if FOLDER.part_class(name, "train.track").package:
        assert found[0] == found[1] != found[2]


@each_tracker
def test_what_is_missing_or_broken_is_one_line_with_the_remedy(name, tmp_path, seen):
    cls = FOLDER.part_class(name, "train.track")
    if not cls.package:
        return
    config = base.get_config()
    config.train.track = f"{name}:mine"
    seen(name)
    sys.modules[cls.package] = None
    for needs in (
        lambda: check_needed(config, ""),
        lambda: open_tracker(f"{name}:mine", epath.Path(tmp_path), {}),
    ):
        with pytest.raises(UserError, match=f"needs the package {cls.package}: ") as e:
            needs()
        assert (
            f"'.[{name}]'" in str(e.value) and cls.requires and "\n" not in str(e.value)
        )
    sys.modules[cls.package] = Broken(cls.package)
    with pytest.raises(UserError) as error:
        open_tracker(f"{name}:mine", epath.Path(tmp_path), {})
    expected = f"train.track={name}:mine: no key is configured{cls.remedy}"
    assert str(error.value) == expected
