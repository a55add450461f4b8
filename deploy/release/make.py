"""Makes a release: sdist and wheel of what git tracks, held to what they must hold, installed, run; then checksums.

python -m deploy.release.make [--out dist]
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from deploy.release.contents import sdist_faults, wheel_faults
from deploy.release.trial import TrialFailed, environment, try_out

ROOT = Path(__file__).resolve().parents[2]
PINS = ROOT / "deploy" / "constraints" / "pins.txt"


def tracked(root: Path = ROOT) -> list[str]:
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, check=True)
    return [name.decode() for name in listing.stdout.split(b"\0") if name]


def version(root: Path = ROOT) -> str:
    return str(tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]["version"])


def unready(root: Path = ROOT) -> list[str]:
    """Why this checkout may not be released."""
    changed = subprocess.run(["git", "status", "--porcelain"], cwd=root, capture_output=True, text=True, check=True)
    faults = [f"{line[3:]}: is not committed" for line in changed.stdout.splitlines()]
    _, _, told = (root / "CHANGELOG.md").read_text("utf-8").partition("\n## Unreleased\n")
    if not told.lstrip().startswith(f"## {version(root)}\n"):
        faults.append(f"CHANGELOG.md: expected '## {version(root)}' below an empty '## Unreleased'")
    return faults


def build(out: Path, *options: str, root: Path = ROOT) -> tuple[Path, Path]:
    """Sdist, and the wheel out of that. Of tracked files alone: what lies about in a checkout comes into no release."""
    with tempfile.TemporaryDirectory() as clean:
        for name in tracked(root):
            target = Path(clean, name)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, target)
        subprocess.run([sys.executable, "-m", "build", *options, "--outdir", str(out), clean], check=True)
    (sdist,), (wheel,) = out.glob("*.tar.gz"), out.glob("*.whl")
    return sdist, wheel


def main() -> int:
    parser = argparse.ArgumentParser(description="Make and check a release.")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="An empty folder. [default: dist]")
    out: Path = parser.parse_args().out
    if out.exists() and any(out.iterdir()):
        return _refused([f"{out}: is not empty; a release is made anew"])
    if faults := unready():
        return _refused(faults)
    sdist, wheel = build(out)
    if faults := [*sdist_faults(sdist, tracked(), version()), *wheel_faults(wheel, tracked(), version())]:
        return _refused(faults)
    with tempfile.TemporaryDirectory() as folder:
        try:
            sekisho = environment(Path(folder, "venv"), wheel, "--constraint", str(PINS))
            try_out(sekisho, Path(folder), version())
        except TrialFailed as fault:
            return _refused([str(fault)])
    sums = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in (sdist, wheel)]
    (out / "SHA256SUMS").write_text("".join(sums))
    sys.stdout.write(f"{out}: {sdist.name}, {wheel.name}; installed, started and looked at\n")
    return 0


def _refused(faults: list[str]) -> int:
    sys.stderr.writelines(f"release: {fault}\n" for fault in faults)
    return 1


if __name__ == "__main__":
    sys.exit(main())
