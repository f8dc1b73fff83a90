"""Versions of what measures and computes, collected in one place: at each launch, and again by the report."""

import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = (
    "breakeven",
    "snakemake",
    "xllamacpp",
    "httpx",
    "docker",
    "numpy",
    "scipy",
    "pandas",
    "pyarrow",
    "altair",
)
"""Packages whose version can change what was measured or computed."""

REPOSITORY = "workflow repository"


def versions() -> dict[str, str]:
    """Name -> version of Python, the packages that are installed, and the checkout where there is one."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    commit = git_state()
    return found | ({REPOSITORY: commit} if commit else {})


def git_state(folder: Path | None = None) -> str | None:
    """Commit of the checkout and whether it has changes; None outside of one."""
    try:
        commit, changed = (
            subprocess.run(
                ["git", *arguments], cwd=folder, capture_output=True, text=True, timeout=10, check=True
            ).stdout.strip()
            for arguments in (["rev-parse", "HEAD"], ["status", "--porcelain", "--untracked-files=no"])
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return f"{commit}{' with uncommitted changes' if changed else ''}"
