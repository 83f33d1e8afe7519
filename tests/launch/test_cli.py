"""Flags, overrides and exit codes; an error that a user can mend is one line."""

import argparse
import importlib
import pkgutil

import pytest

import launch.commands
from launch import cli
from launch.backends import resources, submit
from launch.cli import Parser, main, whole
from research.contract.errors import UserError
from research.generation import samplers


def commands():
    """The modules that have a parser."""
    found = [*pkgutil.iter_modules(launch.__path__, "launch.")]
    found += pkgutil.iter_modules(launch.commands.__path__, "launch.commands.")
    names = [each.name for each in found if not each.ispkg]
    modules = [importlib.import_module(n) for n in names if "huggingface" not in n]
    found = [module for module in modules if hasattr(module, "parser")]
    assert len(found) > 20
    return found


def _exit(run, *argv, capsys):
    parser = Parser("A command.")
    parser.add_argument("--config")
    with pytest.raises(SystemExit) as caught:
        main(run, parser, list(argv))
    return caught.value.code, capsys.readouterr().err


def test_overrides_come_in_both_spellings(capsys):
    seen = {}
    words = ["--config", "a.py", "--config.a.b=c=d", "--config.e", "-1"]
    code, said = _exit(lambda args: seen.update(vars(args)), *words, capsys=capsys)
    assert (code, said) == (0, "")
    assert seen == {"config": "a.py", "overrides": {"a.b": "c=d", "e": "-1"}}


@pytest.mark.parametrize(
    "argv",
    [
        ["--confg=a"],
        ["--config.a"],
        ["stray"],
        ["--config"],
        ["--conf", "a"],
        ["--config=\udcff"],
    ],
)
def test_a_wrong_flag_is_one_line(argv, capsys):
    code, said = _exit(lambda args: 0, *argv, capsys=capsys)
    assert code == 2
    assert said.startswith("error: ") and said.count("\n") == 1


@pytest.mark.parametrize("word", ["0", "257", "x", "2.5", ""])
def test_a_whole_number_out_of_its_range_is_one_line(word, capsys):
    parser = Parser("A command.")
    parser.add_argument("--steps", type=whole(1, 256))
    parser.add_argument("--lines", type=whole(0))
    with pytest.raises(SystemExit):
        main(lambda args: 0, parser, [f"--steps={word}"])
    error = capsys.readouterr().err
    assert "--steps: must be a whole number from 1 to 256, not" in error
    args = parser.parse_args(["--steps=256", "--lines=0"])
    assert (args.steps, args.lines) == (256, 0)
    with pytest.raises(UserError, match="a whole number of at least 0, not -1"):
        parser.parse_args(["--lines=-1"])


DECLARED = {*samplers.options()}
CHECKED = {*submit.MIN_VALUES, *resources.MIN_VALUES, *DECLARED}
"""Flags that are checked later: those that also come from sweep.json, and those of
samplers, whose fields have bounds."""


@pytest.mark.parametrize("module", commands())
def test_each_whole_number_of_a_command_has_bounds(module):
    for action in module.parser()._actions:
        is_field = "." in action.dest or action.dest in CHECKED
        assert action.type is not int or is_field, action.dest


WORDS = {
    *("against", "baseline", "better", "caption", "claim", "columns", "coordinator"),
    *("fields", "format", "groups", "host", "label", "license", "method", "metric"),
    *(
        "name_end",
        "nearest",
        "on",
        "panels",
        "prompts",
        "rerun",
        "scale",
        "similarity",
        "slice",
        "spread",
    ),
    *(
        "by",
        "language",
        "push",
        "scores",
        "task",
        "texts",
        "topology",
        "trial",
        "verdicts",
        "worse",
    ),
    *("parts", "sweep_keys"),  # of an example, of a config
    *("file_column", "caption_column", "group_column", "label_column"),
    *("backend", "checkpoints", "tasks", "glue", "seeds"),  # of babylm
}
"""Flags of text that are no paths; --similarity has several."""


@pytest.mark.parametrize("module", commands())
def test_each_path_of_a_command_may_begin_with_a_tilde(module):
    """By `add_path`: a flag of text is a path unless it is known to be none."""
    for action in module.parser()._actions:
        is_text = action.type is None and action.nargs != 0 and not action.choices
        is_field = "." in action.dest or action.dest in DECLARED
        assert not is_text or is_field or action.dest in WORDS, action.dest


@pytest.mark.parametrize("module", commands())
def test_a_path_is_a_model_where_the_help_says_so(module):
    for action in module.parser()._actions:
        if action.type in (cli.path, cli.path_or_model):
            is_model = "hf:DIR" in action.help
            assert (action.type is cli.path_or_model) == is_model, action.dest
    with pytest.raises(
        argparse.ArgumentTypeError, match="layout, not a file or folder; a run may"
    ):
        cli.path("hf:DIR")
    assert cli.path("hf://models/x") == "hf://models/x"  # a bucket


def test_a_misspelt_flag_is_told_before_the_one_that_is_missing():
    parser = Parser("A command.", overrides=False)
    parser.add_argument("--workdir", required=True)
    with pytest.raises(UserError, match="unknown flag '--workdr'; did you mean --work"):
        parser.parse_args(["--workdr=runs/a"])
    with pytest.raises(UserError, match="unknown flag '--run'; did you mean --workdir"):
        parser.parse_args(["--run=runs/a"])
    with pytest.raises(UserError, match="arguments are required: --workdir"):
        parser.parse_args([])


@pytest.mark.parametrize(
    "flag, key",
    [
        ("--lr", "optimizer.learning_rate"),
        ("--learning_rate", "optimizer.learning_rate"),
        ("--batch-size", "train.batch"),
        ("--train.steps", "train.steps"),
    ],
)
def test_a_config_key_that_is_given_as_a_flag_is_named(flag, key):
    with pytest.raises(UserError, match=rf"did you mean --config\.{key}\?"):
        Parser("A command.").parse_args([f"{flag}=1"])


def test_a_required_flag_has_a_value(capsys):
    parser = Parser("A command.")
    parser.add_argument("--workdir", required=True)
    with pytest.raises(SystemExit) as caught:
        main(lambda args: 0, parser, ["--workdir="])
    assert caught.value.code == 2
    assert "--workdir has no value" in capsys.readouterr().err


def _raise(error):
    def run(args):
        raise error

    return run


@pytest.mark.parametrize(
    "error, code",
    [
        (UserError("two\nlines"), 2),
        (OSError(28, "No space left on device", "/full/file"), 2),
        (PermissionError(13, "Permission denied", "/root/file"), 2),
        (OSError(36, "File name too long", "x" * 300), 2),
        (IsADirectoryError("Cannot overwrite: /a/file is a directory"), 2),
        (MemoryError("Unable to allocate 9 TiB"), 2),
        (RuntimeError("RESOURCE_EXHAUSTED: Out of memory\nallocating 9 bytes"), 2),
        (ModuleNotFoundError("No module named 'seqio'", name="seqio"), 2),
        (KeyboardInterrupt(), 130),
        (KeyboardInterrupt("it goes on from step 7"), 130),
    ],
)
def test_what_a_person_can_mend_is_one_line(error, code, capsys):
    exit_code, said = _exit(_raise(error), capsys=capsys)
    assert exit_code == code
    assert said.count("\n") == 1
    if "step 7" in str(error):
        assert said == "interrupted; it goes on from step 7\n"


def test_a_link_to_nothing_is_one_line(tmp_path, capsys):
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "nowhere")
    code, said = _exit(lambda args: link.read_text(), capsys=capsys)
    assert code == 2
    assert said == f"error: {link}: a link to nothing; delete the link\n"


@pytest.mark.parametrize("error", [ValueError("x"), FileNotFoundError(2, "x", "y")])
def test_a_bug_keeps_its_traceback(error):
    with pytest.raises(type(error)):
        main(_raise(error), Parser(), [])
