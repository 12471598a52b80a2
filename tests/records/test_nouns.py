"""What the nouns promise beside their fields: names, versions, addresses."""

import dataclasses

import pytest

from surefoot import records
from surefoot.records import (
    CATALOGUE,
    Incident,
    OptimizerSpec,
    TrainSpec,
    from_json,
    is_volatile,
    split_name,
    to_json,
)


def test_versions_of_what_is_written():
    # Raised when a key changes or goes, with a reader for the old one; a new key keeps them.
    assert records.SCHEMA == 1
    assert records.FORMAT == 1
    assert TrainSpec().format == records.FORMAT
    assert to_json(TrainSpec())["format"] == 1


def test_exported_names_are_sorted_and_exist():
    assert records.__all__ == sorted(records.__all__, key=lambda name: (name.upper() != name,
                                     name[0].islower(), name))  # fmt: skip
    for name in records.__all__:
        assert hasattr(records, name)


def test_a_spec_of_which_nothing_is_known_states_nothing():
    assert TrainSpec().stated() == {}


def test_stated_fields_by_dotted_path():
    spec = TrainSpec(
        name="a", seed=0, optimizer=OptimizerSpec(eps=1e-8, clip_norm=0.0), options={"x": 1}
    )
    assert spec.stated() == {
        "name": "a",
        "seed": 0,
        "optimizer.eps": 1e-8,
        "optimizer.clip_norm": 0.0,
    }


def test_the_last_healthy_step_is_before_the_whole_onset_interval():
    incident = Incident(
        id="a0-s00120", alarm_step=120, onset_step=117, onset_interval=(115, 119),
        leading_signal="grad_norm", peak_step=121, peak_nats=0.4,
    )  # fmt: skip
    assert incident.last_healthy_step == 114
    assert from_json(Incident, to_json(incident)) == incident


# ------------------------------------------------------------------------------- the catalogue


def test_names_are_keys_and_can_be_columns_and_places():
    for name, signal in CATALOGUE.items():
        assert signal.name == name
        assert name.isidentifier()
        assert name == name.lower()
        assert signal.definition
        assert not signal.definition.endswith(".")


def test_the_signals_that_a_run_records():
    # What DESIGN.md and the issue of the first slice name; a reader maps other trainers onto these.
    assert {
        "loss", "log_z", "log_z_abs_max", "z_loss", "grad_norm", "param_norm", "update_rms",
        "update_ratio", "adam_rms", "eps_share", "attention_logit_max", "learning_rate",
        "tokens_per_second", "memory",
    } <= set(CATALOGUE)  # fmt: skip
    assert {name for name, signal in CATALOGUE.items() if signal.per_place} == {
        "grad_norm", "param_norm", "update_rms", "update_ratio", "adam_rms", "eps_share",
        "grad_cosine", "adam_update_rms", "update_bimodality", "update_large_share",
        "second_moment_lag", "attention_logit_max", "router_entropy", "router_logit_max",
        "expert_load_max", "tokens_dropped",
    }  # fmt: skip


def test_what_depends_on_the_clock_or_the_memory_is_volatile():
    volatile = {name for name, signal in CATALOGUE.items() if signal.volatile}
    assert volatile == {"step_time", "tokens_per_second", "memory"}
    assert {s.name for s in CATALOGUE.values() if s.unit in ("s", "token/s", "byte")} == volatile


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("loss", ("loss", None)),
        ("grad_norm@layers.3.attention.wo", ("grad_norm", "layers.3.attention.wo")),
        ("a@b@c", ("a", "b@c")),
        ("grad_norm@", ("grad_norm", "")),
    ],
)
def test_split_name(name, parts):
    assert split_name(name) == parts


def test_volatility_of_places_and_of_unknown_signals():
    assert is_volatile("memory@rank.3")
    assert not is_volatile("grad_norm@layers.0")
    assert not is_volatile("somebody_elses_metric")


def test_a_signal_of_the_catalogue_is_a_record_too():
    for signal in CATALOGUE.values():
        assert from_json(records.Signal, to_json(signal)) == signal
        assert dataclasses.replace(signal) == signal
