"""A configuration of each trainer, written in the style of its public ones; helpers for tests."""

from pathlib import Path

from surefoot.readers.configs import Configs, read_configs

SAMPLES = Path(__file__).parent / "samples"
FORMATS = {
    "torchtitan.toml": "torchtitan",
    "nanogpt.py": "nanogpt",
    "nanochat.sh": "nanochat",
    "gpt_neox.yml": "gpt-neox",
    "gpt_neox_local.yml": "gpt-neox",
    "litgpt.yaml": "litgpt",
    "axolotl.yml": "axolotl",
    "llama_factory.yaml": "llama-factory",
    "llm_foundry.yaml": "llm-foundry",
    "olmo.yaml": "olmo",
    "olmo_core.json": "olmo-core",
    "nanotron.yaml": "nanotron",
    "levanter.yaml": "levanter",
    "nemo.yaml": "nemo",
    "nemo_2.yaml": "nemo-2",
    "megatron_bridge.yaml": "megatron-bridge",
    "mindformers.yaml": "mindformers",
    "lightning.yaml": "lightning",
}


def sample(*names: str) -> Configs:
    """What samples say together."""
    return read_configs(*(SAMPLES / name for name in names))


def text(name: str) -> str:
    """The text of a sample."""
    return (SAMPLES / name).read_text()


def rows(configs: Configs) -> dict:
    """Field -> (value, line) of what the files state."""
    spec = configs.spec
    values = spec.stated() | {f"environment.{k}": v for k, v in spec.environment.items()}
    return {
        field: (value, spec.sources[field].line)
        for field, value in values.items()
        if spec.sources[field].kind in ("config", "comment")
    }


def assumed(configs: Configs, trainer: str) -> dict:
    """Field -> value of what the trainer fills in; every one must name the same version."""
    spec = configs.spec
    found = {f: v for f, v in spec.stated().items() if spec.sources[f].kind == "default"}
    for field in found:
        assert spec.sources[field].assumed == trainer, (field, spec.sources[field])
        assert spec.sources[field].line is None
    return found


def strange(configs: Configs) -> dict:
    """Key that was not understood -> (line, nearest known key)."""
    return {note.key: (note.line, note.nearest) for note in configs.not_understood}
