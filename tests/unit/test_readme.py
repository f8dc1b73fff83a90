"""What the README tells people to write and run is right."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from breakeven import config

README = Path(__file__).parents[2] / "README.md"


def test_the_readmes_experiment_is_valid(tmp_path):
    [example] = re.findall(r"```yaml\n(.*?)```", README.read_text(), re.DOTALL)
    path = tmp_path / "mi210_mtp.yaml"
    path.write_text(example)
    spec = config.experiment(path)
    assert [arm["n_spec"] for arm in spec["arms"].values()] == [0, 0, 1, 3]
    assert spec["rounds"] == "auto"


@pytest.mark.parametrize(
    "command", sorted(set(re.findall(r"`breakeven (\w+)", README.read_text()))), ids=lambda name: name
)
def test_the_readmes_commands_exist(command):
    done = subprocess.run(
        [sys.executable, "-m", "breakeven.cli", command, "--help"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr


def test_the_readmes_links_lead_somewhere():
    links = re.findall(r"\]\(([^)#]+)\)", README.read_text())
    missing = [link for link in links if "://" not in link and not (README.parent / link).exists()]
    assert not missing
