"""A stand-in for the Hub: the part of its HTTP interface that uploads and downloads."""

import base64
import contextlib
import hashlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

from huggingface_hub import ModelCard, constants

TOKEN = "hf_test"


class Hub:
    """Repositories in memory: name -> branch -> path -> bytes."""

    def __init__(self):
        self.repositories: dict[str, dict[str, dict[str, bytes]]] = {}
        self.objects: dict[str, bytes] = {}  # sha256 -> content of large files
        self.url = ""


@contextlib.contextmanager
def running_hub(monkeypatch, cache: Path) -> Iterator[Hub]:
    """A Hub on this machine, to which huggingface_hub talks from now on.

    Args:
      cache: folder of what it downloads.
    """
    hub = Hub()
    handler = type("Handler", (_Handler,), {"hub": hub})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    hub.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    template = constants.HUGGINGFACE_CO_URL_TEMPLATE
    template = template.replace(constants.ENDPOINT, hub.url)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(constants, "ENDPOINT", hub.url)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    hub: Hub

    def log_message(self, *_) -> None:
        pass

    def do_POST(self) -> None:
        path, body = self._path(), self._body()
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            return self._send(401, {"error": "Invalid username or password."})
        repositories = self.hub.repositories
        match path:
            case ["api", "repos", "create"]:
                content = json.loads(body)
                name = f"{content['organization']}/{content['name']}"
                status = 409 if name in repositories else 200
                repositories.setdefault(name, {"main": {}})
                return self._send(status, {"url": f"{self.hub.url}/{name}"})
            case ["api", "validate-yaml"]:
                head = ModelCard(json.loads(body)["content"]).data
                names = [] if head.library_name else [{"message": "no library_name"}]
                return self._send(200, {"errors": names, "warnings": []})
            case ["api", "models", org, name, "branch", branch]:
                branches = repositories[f"{org}/{name}"]
                status = 409 if branch in branches else 200
                branches.setdefault(branch, dict(branches["main"]))
                return self._send(status, {})
            case ["api", "models", _, _, "preupload", _]:
                files = [
                    {
                        "path": file["path"],
                        "uploadMode": "lfs" if _is_large(file["path"]) else "regular",
                        "shouldIgnore": False,
                    }
                    for file in json.loads(body)["files"]
                ]
                return self._send(200, {"files": files})
            case [_, _, "info", "lfs", "objects", "batch"]:
                objects = [
                    {
                        "oid": each["oid"],
                        "size": each["size"],
                        "actions": {
                            "upload": {"href": f"{self.hub.url}/objects/{each['oid']}"}
                        },
                    }
                    for each in json.loads(body)["objects"]
                ]
                return self._send(200, {"transfer": "basic", "objects": objects})
            case ["api", "models", org, name, "commit", branch]:
                files = repositories[f"{org}/{name}"][branch]
                for line in map(json.loads, body.splitlines()):
                    value = line["value"]
                    if line["key"] == "file":
                        files[value["path"]] = base64.b64decode(value["content"])
                    elif line["key"] == "lfsFile":
                        files[value["path"]] = self.hub.objects[value["oid"]]
                oid = _commit(files)
                url = f"{self.hub.url}/{org}/{name}/commit/{oid}"
                return self._send(200, {"commitUrl": url, "commitOid": oid})
        return self._send(404, {"error": f"POST {self.path}"})

    def do_PUT(self) -> None:
        body = self._body()
        self.hub.objects[hashlib.sha256(body).hexdigest()] = body
        self._send(200, {})

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        match self._path():
            case ["api", "models" | "datasets", org, name, *rest]:
                if f"{org}/{name}" not in self.hub.repositories:
                    return self._send(404, {}, "RepoNotFound")
                branch = rest[1] if rest[:1] == ["revision"] else "main"
                files = self._files(f"{org}/{name}", branch)
                siblings = [{"rfilename": path} for path in files]
                content = {"id": f"{org}/{name}", "sha": _commit(files)}
                if rest[:1] == ["tree"]:
                    try:
                        files = self._files(f"{org}/{name}", rest[1])
                    except KeyError:
                        return self._send(404, {}, "RevisionNotFound")
                    tree = [
                        {"type": "file", "path": path, "size": len(data), "oid": "0"}
                        for path, data in files.items()
                    ]
                    return self._send(200, tree)
                return self._send(200, content | {"siblings": siblings})
            case [org, name, "resolve", branch, *path] | [
                "datasets",
                org,
                name,
                "resolve",
                branch,
                *path,
            ]:
                files = self._files(f"{org}/{name}", branch)
                data = files["/".join(path)]
                self.send_response(200)
                self.send_header("X-Repo-Commit", _commit(files))
                self.send_header("ETag", f'"{hashlib.sha256(data).hexdigest()}"')
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                if self.command == "GET":
                    self.wfile.write(data)
                return None
        return self._send(404, {"error": f"GET {self.path}"})

    def _files(self, name: str, revision: str) -> dict[str, bytes]:
        """The files of a branch, or of the branch of this commit."""
        branches = self.hub.repositories[name]
        of_commit = {_commit(files): files for files in branches.values()}
        return (branches | of_commit)[revision]

    def _path(self) -> list[str]:
        path = urlsplit(self.path).path.removesuffix(".git")
        return [unquote(part) for part in path.replace(".git/", "/").split("/")[1:]]

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def _send(self, status: int, content, error: str = "") -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("X-Error-Code", error)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _is_large(path: str) -> bool:
    return path.endswith(".safetensors")


def _commit(files: dict[str, bytes]) -> str:
    """40 hex digits for the content of a branch."""
    digest = hashlib.sha1(repr(sorted(files.items())).encode())
    return digest.hexdigest()
