"""Run folders by path or by name."""

from pathlib import Path

from surefoot.errors import RunFolderError, nearest


def run_folder(run: Path, runs_dir: Path) -> Path:
    """The folder meant by ``run``: a path, or a name below ``runs_dir``.

    Raises:
        RunFolderError: naming the nearest run there is.
    """
    for candidate in (run, runs_dir / run):
        if (candidate / "spec.toml").is_file():
            return candidate
    if run.exists():
        raise RunFolderError(f"{run} is not a run folder: it has no spec.toml")
    known = sorted(p.parent.name for p in runs_dir.glob("*/spec.toml")) if runs_dir.is_dir() else []
    hint = nearest(run.name, known) or _listed(known)
    raise RunFolderError(f"no run {str(run)!r} here or in {runs_dir}{hint}")


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return f"; runs there: {', '.join(names[:8])}{more}" if names else ""
