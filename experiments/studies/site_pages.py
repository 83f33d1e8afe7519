"""The pages of `make site`: those of the repository, and a reference from the code.

    python -m experiments.studies.site_pages FOLDER

Writes FOLDER/pages and FOLDER/mkdocs.yml. A link to a page stays one; a link to a file
of the code becomes its name, since the site has no code. The reference has every key of
a config with its default and the comment of its line, and the public functions and
classes (experiments/studies/python_reference.py).
"""

import functools
import json
import posixpath
import re
import shutil
import sys
from pathlib import Path

from experiments.studies import python_reference
from launch import key_docs
from research.contract.errors import UserError

ROOT = Path(__file__).parents[2]
NAV = {
    "Start": {
        "First minute": "README.md",
        "Concepts": "docs/concepts.md",
        "Times": "docs/times.md",
    },
    "Tutorials": {
        "Pretrain on your text": "docs/tutorials/pretrain.md",
        "Fine-tune and publish": "docs/tutorials/publish.md",
        "An ablation to a LaTeX table": "docs/tutorials/ablation.md",
        "A new objective": "docs/tutorials/objective.md",
        "A published model": "docs/tutorials/published.md",
        "A bot": "docs/tutorials/bot.md",
        "A pod": "docs/tutorials/pod.md",
    },
    "How to": {
        "Your own files": "docs/howto/files.md",
        "Several languages": "docs/howto/languages.md",
        "Tags, answers, numbers": "docs/howto/tags_answers_numbers.md",
        "Sweeps and phases": "docs/howto/sweeps.md",
        "Two objectives on your tasks": "docs/howto/compare.md",
        "BabyLM, to a submission": "docs/howto/babylm.md",
        "Learning rates that work": "docs/howto/learning_rates.md",
        "My loss stays": "docs/howto/plateau.md",
        "One class alone is predicted": "docs/howto/one_class.md",
    },
    "Manual": {
        "Describe a run": "docs/manual.md",
        "Use, export, serve": "docs/use.md",
        "Make models smaller": "docs/smaller.md",
        "Word vectors": "docs/word_vectors.md",
        "Since 2020": "docs/since_2020.md",
        "Knowledge": "docs/knowledge.md",
        "Images and text": "docs/images.md",
        "Tables of papers": "docs/tables.md",
        "Pods": "docs/pods.md",
        "Packing": "docs/packing.md",
        "Security": "docs/security.md",
    },
    "Reference": {
        "Config keys": "docs/reference.md",
        "Parts": "docs/parts.md",
        "Python": "docs/python.md",
    },
    "Develop": {
        "Add a part": "CONTRIBUTING.md",
        "Architecture": "docs/architecture.md",
        "Tests": "tests/README.md",
        "Changes": "CHANGELOG.md",
    },
    "Evidence": {
        "What we found": "docs/results.md",
        "Objectives": "docs/objectives.md",
        "Published experiments": "docs/fidelity.md",
        "Published claims": "docs/claims.md",
        "Benchmarks": "docs/benchmarks.md",
        "Statistics": "docs/statistics.md",
        "Performance": "docs/performance.md",
        "Bugs of published code": "docs/published_bugs.md",
    },
}
"""Section -> title -> file, in the order of the site. A tutorial begins with what those
before it have made."""
FILES = tuple(file for section in NAV.values() for file in section.values())
REFERENCE, PYTHON = "docs/reference.md", "docs/python.md"
EXTENSIONS = ["tables", "toc", "pymdownx.highlight", "pymdownx.superfences"]
FEATURES = ["navigation.top", "navigation.tabs", "content.code.copy"]
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
CODE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def main(folder: Path) -> None:
    pages = folder / "pages"
    shutil.rmtree(pages, ignore_errors=True)
    for file, text in site_pages().items():
        path = pages / page_name(file)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    for image in (ROOT / "docs").glob("*.svg"):
        shutil.copy(image, pages / image.name)
    nav = [
        {section: [{title: page_name(file)} for title, file in titles.items()]}
        for section, titles in NAV.items()
    ]
    config = {
        "site_name": "Palimpsest",
        "docs_dir": "pages",
        "site_dir": "site",
        "use_directory_urls": False,  # so that it reads from a disk, too
        "theme": {"name": "material", "font": False, "features": FEATURES},
        "markdown_extensions": EXTENSIONS,
        "nav": nav,
    }
    # JSON is YAML.
    (folder / "mkdocs.yml").write_text(json.dumps(config, indent=1), "utf-8")


def page_name(file: str) -> str:
    """The path of a page in the site."""
    own = {"README.md": "index.md", "tests/README.md": "tests.md"}
    return own.get(file, file.removeprefix("docs/").lower())


def site_pages() -> dict[str, str]:
    """File -> the text of its page.

    Raises:
      UserError: a link leads to no file of the repository.
    """
    found, drawn = {}, {REFERENCE: reference, PYTHON: python_reference.page}
    for file in FILES:
        text = drawn[file]() if file in drawn else (ROOT / file).read_text("utf-8")
        parts = CODE.split(text)
        blocks = [*CODE.findall(text), ""]
        own = [LINK.sub(functools.partial(_link, file), part) for part in parts]
        found[file] = "".join(a + b for a, b in zip(own, blocks, strict=True))
    return found


def _link(file: str, link: re.Match) -> str:
    """A link as it is in the site."""
    mark, words, target = link.groups()
    path, _, anchor = target.partition("#")
    if not path or "://" in path:
        return link[0]
    there = ((ROOT / file).parent / path).resolve()
    if not there.is_relative_to(ROOT):
        raise UserError(f"{file}: {target} leads out of the repository")
    name = str(there.relative_to(ROOT))
    if name not in FILES and not there.exists():
        raise UserError(f"{file}: there is no {target}")
    anchor = f"#{anchor}" if anchor else ""
    if mark:
        return f"![{words}]({_from_page(file, there.name)})"
    if name in FILES:
        return f"[{words}]({_from_page(file, page_name(name))}{anchor})"
    return words if name in words else f"{words} (`{name}`)"


def _from_page(file: str, target: str) -> str:
    """The path from a file's page to another path of the site."""
    return posixpath.relpath(target, posixpath.dirname(page_name(file)) or ".")


def reference() -> str:
    """The page of all config keys, by section."""
    lines = [
        "# Config keys",
        "",
        "`--config.SECTION.KEY=VALUE` sets a key. Each objective, network, optimizer "
        "and schedule has keys of its own: a run has those of the ones it chooses.",
        "",
    ]
    for title, found in key_docs.all_keys().items():
        lines += [f"## {title}", "", "| key | default | legal | |", "|---|---|---|---|"]
        lines += [
            f"| `{key.name}` | `{key.default}` | {key.legal} | {_cell(_meaning(key))} |"
            for key in found
        ]
        lines.append("")
    return "\n".join(lines)


def _meaning(key: key_docs.Key) -> str:
    lines = [f"`{value}`: {line}" for value, line in key.lines.items()]
    return "<br>".join(filter(None, [key.meaning, *lines]))


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
