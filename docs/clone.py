"""A clone of this project for experiments: the working tree stays as it is; DVC's cache and the saved trainings are shared."""
import contextlib
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent


@contextlib.contextmanager
def clone():
    """Folder of a clone of the last commit, removed in the end. `.resume` is a committed link in it, so that experiments in DVC's own folders have it too."""
    if edited := told("git", "status", "--porcelain", "--untracked-files=no", "--", ".", ":!metrics", ":!dvc.lock", cwd=ROOT):
        print(f"Not committed, so not used here:\n{edited}", flush=True)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary:  # a worker of DVC's queue may still close its files
        folder = Path(temporary) / "clone"
        told("git", "clone", "-q", str(ROOT), str(folder), cwd=ROOT)
        (ROOT / ".resume").mkdir(exist_ok=True)
        (folder / ".resume").symlink_to(ROOT / ".resume")
        told("dvc", "cache", "dir", "--local", told("dvc", "cache", "dir", cwd=ROOT), cwd=folder)
        told("git", "config", "user.name", "twoviews", cwd=folder)
        told("git", "config", "user.email", "twoviews@localhost", cwd=folder)
        told("git", "add", "--force", ".resume", cwd=folder)
        told("git", "commit", "-qm", "Share the saved trainings", cwd=folder)
        yield folder


def told(*command, cwd):
    """What a command prints; an error if it fails."""
    return subprocess.run(command, cwd=cwd, check=True, stdout=subprocess.PIPE, text=True).stdout.rstrip()
