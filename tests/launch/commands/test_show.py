"""`palimpsest show` on a text of one's own."""

import pytest

from launch.commands import show
from research.contract.errors import UserError
from tests.testing.tiny_runs import (
    save_untrained,
    tiny_config,
    tiny_settings,
    write_corpus,
)


def run(folder, *flags, objective="mlm"):
    keys = tiny_settings(folder).items()
    given = [f"--config.{key}={value}" for key, value in keys]
    config = f"--config=experiments/{objective}.py"
    show.run(show.parser().parse_args([config, *given, *flags]))


def test_rows_of_my_text_before_and_after(tmp_path, capsys):
    folder, mine = write_corpus(tmp_path), tmp_path / "mine.txt"
    mine.write_text("the old river sees a stone and the small river reads by a stone\n")
    run(folder, f"--data={mine}", "--rows=1", "--config.data.length=16")
    text = capsys.readouterr().out
    assert "the old river sees" in text and "[hidden: <mask> → " in text
    assert "of the text's 14 tokens: " in text and "by letters: 1 to 3: " in text
    assert "attention in row 1" in text and "hidden: the network reads" in text
    page = tmp_path / "page.html"
    run(folder, f"--html={page}")
    assert page.read_text().count("<h2>") == 2
    assert "<p>words predicted as a whole or in part" in page.read_text()


def test_keys_are_listed_with_what_they_mean(tmp_path, capsys):
    run(write_corpus(tmp_path), "--keys", "--config.objective.rate=0.3")
    text = capsys.readouterr().out
    assert "objective.rate=0.3 (above 0, below 1)  fraction of tokens" in text
    assert "objective.max_span" not in text and "data.corpus=" in text
    assert "\n      word: words in random order" in text
    with pytest.raises(UserError, match="give --config"):
        show.run(show.parser().parse_args([]))


def test_a_run_has_its_own_vocabulary(tmp_path, capsys):
    folder = write_corpus(tmp_path)
    workdir, *_ = save_untrained(tmp_path / "run", tiny_config(folder, "mlm"))
    show.run(show.parser().parse_args([f"--workdir={workdir}", "--rows=1"]))
    assert "tokens are predicted" in capsys.readouterr().out
    flags = (f"--data={folder}", f"--config.data.vocabulary={workdir}", "--rows=1")
    run(folder, *flags)
    out, err = capsys.readouterr()
    assert "counts of tokens: those of corpus" in err and "every token reads" in out
