"""Files of data sets of the Hugging Face Hub: `data.corpus=hf:ORG/NAME`."""

import fnmatch
from pathlib import Path

from research.contract.errors import UserError
from research.data.read import text_sources

PARQUET_BRANCH = "refs/convert/parquet"
"""The branch on which the Hub keeps a Parquet copy of data sets in other formats."""
SPLIT_WORDS = {"valid": ("valid", "dev"), "test": ("test",)}
"""Split -> words that the names of its files have."""


class Source(text_sources.Source):
    """The files of a repository of data."""

    called = "hf:ORG/NAME"
    is_files = True

    def fetch(self, key: str) -> list[Path]:
        return fetch_files(self.name, key)


def fetch_files(name: str, key: str) -> list[Path]:
    """The files that a name stands for, downloaded to the cache of huggingface_hub.

    hf:ORG/NAME stands for the Parquet files of the split that the key requests, by
    their names (`train-00000-of-00001.parquet`, `validation/0000.parquet`); the key
    data.corpus requests those of training, or all files if none is named like that.
    hf:ORG/NAME/PATTERN stands for the files whose paths match the pattern, as in
    hf:ORG/NAME/en/*.jsonl.gz. ORG/NAME@REVISION is a branch, tag or commit.

    Args:
      key: such as "data.valid".

    Raises:
      UserError: there is no such data set or file, or it cannot be fetched.
    """
    repository, pattern = _split(name)
    try:
        from huggingface_hub import HfApi  # its import takes time

        repository, _, revision = repository.partition("@")
        options = {"repo_id": repository, "repo_type": "dataset"}
        options["revision"] = revision or None
        api = HfApi()
        paths = api.list_repo_files(**options)
        if not (pattern or revision or any(map(_is_table, paths))):
            options["revision"] = PARQUET_BRANCH
            paths = api.list_repo_files(**options)
        if paths := _choose(paths, pattern, key):
            folder = api.snapshot_download(allow_patterns=paths, **options)
            return [Path(folder) / path for path in paths]
    except Exception as error:  # one of the package's many types
        reason, *_ = [*str(error).strip().splitlines(), ""]
        raise UserError(
            f"{key} is {name!r}: it could not be fetched ({type(error).__name__}: "
            f"{reason:.100})"
        ) from error
    raise UserError(
        f"{key} is {name!r}: that data set has no such files; name them by a pattern, "
        "as in hf:ORG/NAME/data/*.jsonl"
    )


def _split(name: str) -> tuple[str, str]:
    """ORG/NAME, and the pattern after it."""
    parts = name.removeprefix("hf:").split("/", 2)
    if len(parts) < 2 or not all(parts[:2]):
        raise UserError(f"a data set of the Hub must be hf:ORG/NAME, not {name!r}")
    return "/".join(parts[:2]), "".join(parts[2:])


def _is_table(path: str) -> bool:
    return path.endswith(".parquet")


def _choose(paths: list[str], pattern: str, key: str) -> list[str]:
    """The files of a repository that are requested."""
    if pattern:
        return sorted(path for path in paths if fnmatch.fnmatchcase(path, pattern))
    tables = sorted(filter(_is_table, paths))
    split = key.removeprefix("data.")
    if split in SPLIT_WORDS:
        words = SPLIT_WORDS[split]
        return [path for path in tables if any(word in path for word in words)]
    return [path for path in tables if "train" in path] or tables
