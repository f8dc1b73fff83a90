"""One checkout and one measured project for all tests; each works on a copy."""

import shutil
from pathlib import Path

import pytest

from small_project import REPORT, Project, check_out


@pytest.fixture(scope="session")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkout") / "project"
    check_out(folder)
    return folder


@pytest.fixture(scope="session")
def built(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built") / "project"
    shutil.copytree(checkout, folder)
    project = Project(folder)
    project.experiment()
    project.run(REPORT)
    return folder


@pytest.fixture
def fresh(checkout: Path, tmp_path: Path) -> Project:
    """Nothing measured yet."""
    return _copy(checkout, tmp_path)


@pytest.fixture
def project(built: Path, tmp_path: Path) -> Project:
    """The small experiment, measured and reported."""
    return _copy(built, tmp_path)


def _copy(source: Path, parent: Path) -> Project:
    folder = parent / "project"
    shutil.copytree(source, folder)
    project = Project(folder)
    if not (folder / "config/experiments/small.yaml").exists():
        project.experiment()
    return project
