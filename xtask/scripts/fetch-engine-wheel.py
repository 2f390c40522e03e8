#!/usr/bin/env python3
"""fetch-engine-wheel.py PACKAGE PLATFORM FOLDER: puts the wheel that crates/engine/packages.toml pins for another
platform into FOLDER, with this machine's pip, and prints its path. A file with the pinned hash is left alone.
"""

import hashlib
import pathlib
import subprocess
import sys
import tomllib

PINS = pathlib.Path(__file__).parents[2] / "crates/engine/packages.toml"


def is_intact(wheel: pathlib.Path, sha256: str) -> bool:
    """Whether the file is there with these bytes."""
    return wheel.is_file() and hashlib.sha256(wheel.read_bytes()).hexdigest() == sha256


def main() -> None:
    """Fetches one wheel."""
    name, platform, folder = sys.argv[1:]
    packages = tomllib.loads(PINS.read_text(encoding="utf-8"))["package"]
    (package,) = (package for package in packages if package["name"] == name)
    (pin,) = (pin for pin in package["wheel"] if pin["platform"] == platform)
    wheel = pathlib.Path(folder) / pin["file"]
    if not is_intact(wheel, pin["sha256"]):
        wheel.parent.mkdir(parents=True, exist_ok=True)
        wheel.unlink(missing_ok=True)
        # A wheel's name ends in the tags that pip is to look for.
        python, abi, system = wheel.stem.split("-")[-3:]
        tags = ["--implementation", python[:2], "--python-version", python[2:], "--abi", abi, "--platform", system]
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
        pip += ["--no-deps", "--only-binary=:all:", *tags, "--dest", str(wheel.parent)]
        requirement = f"{package['distribution']}=={package['version']}"
        subprocess.run([*pip, requirement], check=True, stdout=sys.stderr)
        if not is_intact(wheel, pin["sha256"]):
            sys.exit(f"{wheel} is not there with the pinned hash after pip was asked for {requirement}")
    print(wheel)


main()
