"""Uploads exported folders to repositories of the Hugging Face Hub."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from research.contract.errors import UserError

MAIN = "main"


class Repository:
    """A model repository, created if it does not exist; it stays private if it was.

    HF_TOKEN or a login by `hf auth login` allows writing; HF_ENDPOINT names another
    Hub.

    Args:
      name: ORG/NAME.

    Raises:
      UserError: the name is invalid, there is no network, or the token may not write.
    """

    def __init__(self, name: str, *, private: bool = False):
        from huggingface_hub import HfApi  # its import takes time

        self.name, self._api = name, HfApi()
        if name.count("/") != 1:
            raise UserError(f"--push must be ORG/NAME, got {name!r}")
        with self._one_line():
            self._api.create_repo(name, private=private or None, exist_ok=True)

    def upload(self, folder: Path, revisions: list[str]) -> list[str]:
        """Uploads a folder, in one commit per branch.

        Args:
          revisions: subfolders, each a branch of the repository; the one named main, or
            else the last one, is the branch main. []: the folder itself is.

        Returns:
          the address of each commit.
        """
        branches = {name: folder / name for name in revisions}
        main = branches.pop(MAIN, branches[revisions[-1]] if revisions else folder)
        lines = []
        for branch, content in {MAIN: main, **branches}.items():
            with self._one_line():
                if branch != MAIN:
                    self._api.create_branch(self.name, branch=branch, exist_ok=True)
                commit = self._api.upload_folder(
                    repo_id=self.name,
                    folder_path=content,
                    revision=branch,
                    commit_message=f"Upload {branch}",
                )
            lines.append(f"{branch}: {commit.commit_url}")
        return lines

    @contextlib.contextmanager
    def _one_line(self) -> Iterator[None]:
        """Names the repository in an error of the Hub's package, one of many types."""
        try:
            yield
        except Exception as error:
            reason, *_ = [*str(error).strip().splitlines(), type(error).__name__]
            raise UserError(
                f"--push={self.name}: {reason} ({type(error).__name__}); HF_TOKEN or "
                "hf auth login gives a token that may write, and a network is needed"
            ) from error
