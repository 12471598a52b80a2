"""What scripts/_env asks of versions. Standard library only; never imports surefoot.

- ``_pins.py fingerprint VENV MODE``: hash of all that the environment in VENV was made from
- ``_pins.py torch REPORT``: megabytes and source of the torch in pip's dry-run report
- ``_pins.py usable PYPROJECT``: whether this interpreter's torch is new enough; says so if not
- ``_pins.py visible PYTHON``: show this interpreter's torch to the venv's PYTHON
- ``_pins.py loosen CONSTRAINTS``: the constraints without the installed torch's own stack
- ``_pins.py freeze``: constraints for what this interpreter has installed
"""

import hashlib
import json
import re
import subprocess
import sys
import sysconfig
from importlib import metadata
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parent.parent

# Megabytes on the disk, measured with torch 2.13: torch alone is 800 (CPU) or about 7000 with the
# CUDA libraries it then requires; everything else is 800.
CPU_MB, CUDA_MB = 1700, 8000

HEADER = "# What the scripts install, to the version. Regenerate with: scripts/_env --freeze\n"


def fingerprint(venv: str, mode: str) -> str:
    """Hash of the inputs; another folder, interpreter or system torch makes another one."""
    seen = hashlib.sha256()
    for name in ("pyproject.toml", "constraints.txt", "scripts/_env"):
        seen.update((ROOT / name).read_bytes())
    about = [str(ROOT), venv, mode, sys.version]
    if mode == "system":
        about.append(_version("torch") or "none")
    seen.update("\n".join(about).encode())
    return seen.hexdigest()


def torch(report: str) -> str:
    """``MB SOURCE...`` of the torch that pip would install."""
    (item,) = json.loads(Path(report).read_text(encoding="utf-8"))["install"]
    url = urlsplit(item["download_info"]["url"])
    needs = item["metadata"].get("requires_dist", [])
    cuda = any(re.match(r"(nvidia|cuda)[-_]", need) for need in needs) and sys.platform == "linux"
    place = url.hostname or unquote(str(Path(url.path).parent))
    kind = "with CUDA" if cuda else "for CPUs"
    return f"{CUDA_MB if cuda else CPU_MB} torch {item['metadata']['version']} {kind} from {place}"


def usable(pyproject: str) -> None:
    """Exit with one line if this interpreter's torch is missing or too old."""
    version = _version("torch")
    if version is None:
        sys.exit(
            f"surefoot: --use-system-torch: {sys.executable} has no torch: activate the "
            "environment that has it, or name its interpreter: PYTHON=/path/to/python"
        )
    text = Path(pyproject).read_text(encoding="utf-8")
    (oldest,) = re.findall(r'"torch>=([\d.]+)"', text)
    if _numbers(version) < _numbers(oldest):
        sys.exit(
            f"surefoot: --use-system-torch: torch {version} is too old, {oldest} or newer is "
            "needed: remove .venv and run without --use-system-torch to get one of its own"
        )


def visible(python: str) -> None:
    """Let a new environment see the torch of this interpreter.

    ``--system-site-packages`` shows the packages of the *base* interpreter; where this one is
    itself a virtual environment, its folder is added by a .pth file.
    """
    ask = "import importlib.util as u, sysconfig as s; print(u.find_spec('torch') is not None); "
    ask += "print(s.get_path('purelib'))"
    found, target = subprocess.run(
        [python, "-c", ask], check=True, capture_output=True, text=True
    ).stdout.splitlines()
    if found != "True":
        folders = {
            str(metadata.distribution("torch").locate_file("")),
            sysconfig.get_path("purelib"),
        }
        (Path(target) / "surefoot-system.pth").write_text("\n".join(sorted(folders)) + "\n")


def loosen(constraints: str) -> str:
    """The constraints, with the installed torch in place and nothing it requires pinned."""
    stack, queue = set(), ["torch"]
    while queue:
        name = _normal(queue.pop())
        if name in stack:
            continue
        stack.add(name)
        try:
            requirements = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue
        queue += [re.match(r"[\w.\-]+", need)[0] for need in requirements if "extra ==" not in need]
    lines = Path(constraints).read_text(encoding="utf-8").splitlines()
    kept = [line for line in lines if _normal(line.partition("==")[0]) not in stack]
    return "\n".join([*kept, f"torch=={_version('torch')}"])


def freeze() -> str:
    """One ``name==version`` a line; what torch pins itself (its CUDA libraries) is left to it."""
    pins = {}
    for found in metadata.distributions():
        name = found.metadata["Name"]
        if _normal(name) in ("pip", "surefoot", "triton"):
            continue
        if not re.match(r"(nvidia|cuda)[-_]", name):
            # "2.13.0+cpu" is 2.13.0 built for CPUs: the pin must fit the other builds too.
            pins[name] = found.version.partition("+")[0]
    return HEADER + "\n".join(f"{name}=={pins[name]}" for name in sorted(pins, key=str.lower))


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower().strip()


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version.partition("+")[0])[:3])


if __name__ == "__main__":
    answer = globals()[sys.argv[1]](*sys.argv[2:])
    if answer is not None:
        print(answer)
