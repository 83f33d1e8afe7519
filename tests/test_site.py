"""The pages of the site: their links lead somewhere, the reference has every key and
every public name."""

import importlib
import inspect
import posixpath
import re

import pytest

from experiments.studies import python_reference, site_pages
from research.config import sections
from research.contract.errors import UserError
from research.contract.parts import key_fields
from research.objectives.mlm import mlm

HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


@pytest.fixture(scope="module")
def pages():
    return site_pages.site_pages()


def anchors(text):
    """Those that Python-Markdown's toc gives headings."""
    plain = (re.sub(r"[^\w\s-]", "", h).strip().lower() for h in HEADING.findall(text))
    return {re.sub(r"[-\s]+", "-", each) for each in plain}


def test_every_page_is_in_the_site_and_every_link_leads_to_one(pages):
    root = site_pages.ROOT
    written = {str(path.relative_to(root)) for path in (root / "docs").rglob("*.md")}
    assert written <= pages.keys()
    by_name = {site_pages.page_name(file): text for file, text in pages.items()}
    count = 0
    for file, text in pages.items():
        text = site_pages.CODE.sub("", text)
        for mark, words, target in site_pages.LINK.findall(text):
            path, _, anchor = target.partition("#")
            if "://" in target:
                continue
            folder = posixpath.dirname(site_pages.page_name(file))
            path = path and posixpath.normpath(posixpath.join(folder, path))
            if mark:
                assert (root / "docs" / path).exists(), (file, target)
                continue
            there = by_name[path] if path else text
            assert not anchor or anchor in anchors(there), (file, words, target)
            count += 1
    assert count > 50


def test_the_reference_has_every_key_with_what_it_means(pages):
    text = pages[site_pages.REFERENCE]
    for name, cls in {**sections.SECTIONS, "objective": mlm.Objective}.items():
        for field in key_fields(cls):
            key = f"{name}.{field.name}" if name else field.name
            assert f"| `{key}` | `" in text, key
    held_out = "| `data.held_out` | `0.02` | at least 0, below 0.5 | fraction of doc"
    assert held_out in text
    assert "## model.network=transformer" in text
    assert "| `model.qk_norm` | `False` |  | a norm of" in text
    rows = (line for line in text.splitlines() if line.startswith("| `"))
    assert all(line.replace("\\|", "").count("|") == 5 for line in rows)


def test_every_public_name_has_a_docstring_and_is_in_the_reference(pages):
    text, found = pages[site_pages.PYTHON], 0
    names = [name for names in python_reference.MODULES.values() for name in names]
    for module in map(importlib.import_module, names):
        for name, value in python_reference.public(module).items():
            assert python_reference.own_docstring(value), (module.__name__, name)
            assert f"\n#### {name}\n" in text
            of_class = python_reference.methods(value) if inspect.isclass(value) else {}
            for method, function in of_class.items():
                where = f"{module.__name__}.{name}.{method}"
                assert function.__doc__, where
                assert f"\n##### {name}.{method}\n" in text, where
            found += 1 + len(of_class)
    assert found > 200
    assert "#### open_run\n\n```python\nopen_run(\n    source: " in text
    assert "class Column(NamedTuple):\n    name: str\n    group: str\n" in text


def test_a_link_that_leads_nowhere_is_reported(monkeypatch, tmp_path):
    monkeypatch.setattr(site_pages, "ROOT", tmp_path)
    monkeypatch.setattr(site_pages, "FILES", ("one.md", "docs/sub/two.md"))
    (tmp_path / "one.md").write_text("```\n[a](nothing.md)\n```\n[b](one.md#x)")
    (tmp_path / "docs" / "sub").mkdir(parents=True)
    (tmp_path / "docs" / "a.svg").touch()
    two = tmp_path / "docs" / "sub" / "two.md"
    two.write_text("[b](../../one.md#x) ![c](../a.svg)")
    assert site_pages.site_pages() == {
        "one.md": "```\n[a](nothing.md)\n```\n[b](one.md#x)",
        "docs/sub/two.md": "[b](../one.md#x) ![c](../a.svg)",
    }
    (tmp_path / "one.md").write_text("[a](nothing.md)")
    with pytest.raises(UserError, match=r"one\.md: there is no nothing\.md"):
        site_pages.site_pages()
    (tmp_path / "one.md").write_text("[a](../secret)")
    with pytest.raises(UserError, match="leads out of the repository"):
        site_pages.site_pages()
