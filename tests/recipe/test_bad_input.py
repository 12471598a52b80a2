"""Every unusable recipe gets one line: where, what was got, what was expected, what to type."""

import os

import pytest

from surefoot.errors import RecipeError
from surefoot.recipe import Recipe, load
from surefoot.recipe.load import _step_into

ARCHITECTURE = (
    "layers, width, heads, kv_heads, ff_width, vocab_size, sequence_length, norm, norm_eps, "
    "activation, rope_theta, tied_embeddings, norm_placement, residual_scale, layer_scale, qk_norm "
    "and 14 more (docs/reference/recipe.md)"
)

# (what is replaced, by what, the message behind "recipe.toml:").
IN_THE_FILE = [
    # Unknown keys, at any depth.
    (
        "layers = 2",
        "layer = 2",
        "5: unknown key 'architecture.layer' (did you mean 'layers'?) (and 1 more)",
    ),
    (
        "[optimizer]",
        "[optimiser]",
        "12: unknown key 'optimiser' (did you mean 'optimizer'?) (and 1 more)",
    ),
    (
        'path = "corpus/*.txt"',
        'pth = "corpus/*.txt"',
        "29: unknown key 'data.sources[1].pth' (did you mean 'path'?)",
    ),
    (
        "every = 100",
        "every = 100\nlearning_rate = 1.0",
        "33: unknown key 'evaluation.learning_rate' (did you mean 'optimizer.learning_rate'?)",
    ),
    (
        "every = 100",
        "every = 100\n[evaluation.deep]\nx = 1",
        "33: unknown key 'evaluation.deep'; known in [evaluation]: every, samples",
    ),
    (
        "heads = 4",
        "heads = 4\nflux = 1",
        f"8: unknown key 'architecture.flux'; known in [architecture]: {ARCHITECTURE}",
    ),
    # Wrong type or unit.
    (
        "3e-4",
        "'3e-4 '",
        "13: optimizer.learning_rate = '3e-4 ': expected a number > 0: write 0.0003",
    ),
    ("3e-4", "'10%'", "13: optimizer.learning_rate = '10%': expected a number > 0: write 0.1"),
    ("3e-4", "'fast'", "13: optimizer.learning_rate = 'fast': expected a number > 0"),
    ("3e-4", "true", "13: optimizer.learning_rate = true: expected a number > 0"),
    ("3e-4", "[1]", "13: optimizer.learning_rate = [1]: expected a number > 0"),
    ("3e-4", "[]", "13: optimizer.learning_rate = []: expected a number > 0"),
    ("3e-4", "{a = 1}", "13: optimizer.learning_rate = {'a': 1}: expected a number > 0"),
    ("3e-4", "1979-05-27", "13: optimizer.learning_rate = 1979-05-27: expected a number > 0"),
    ("3e-4", "-1", "13: optimizer.learning_rate = -1: expected a number > 0"),
    ("3e-4", "nan", "13: optimizer.learning_rate = nan: expected a finite number > 0"),
    ("3e-4", "-inf", "13: optimizer.learning_rate = -inf: expected a finite number > 0"),
    ("3e-4", "1e400", "13: optimizer.learning_rate = inf: expected a finite number > 0"),
    (
        "3e-4",
        "1" + "0" * 400,
        f"13: optimizer.learning_rate = 1{'0' * 56}...: expected a number > 0 that fits in 64 bits",
    ),
    (
        "3e-4",
        "1e-3\nbeta2 = 1.0",
        "14: optimizer.beta2 = 1.0: expected a number >= 0 and < 1",
    ),
    (
        "steps = 500",
        "steps = '2k'",
        "17: schedule.steps = '2k': expected a whole number > 0 and <= 1000000000: write 2000",
    ),
    (
        "steps = 500",
        "steps = 1.5",
        "17: schedule.steps = 1.5: expected a whole number > 0 and <= 1000000000",
    ),
    (
        "steps = 500",
        "steps = 1e3",
        "17: schedule.steps = 1000.0: expected a whole number > 0 and <= 1000000000: write 1000",
    ),
    (
        "steps = 500",
        "steps = true",
        "17: schedule.steps = true: expected a whole number > 0 and <= 1000000000",
    ),
    (
        "steps = 500",
        "steps = 0",
        "17: schedule.steps = 0: expected a whole number > 0 and <= 1000000000",
    ),
    (
        "steps = 500",
        "steps = 9223372036854775808",
        "17: schedule.steps = 9223372036854775808: expected a whole number > 0 and <= 1000000000",
    ),
    ('"small"', "5", "2: name = 5: expected text in quotes"),
    (
        '"cosine"',
        '"cosinus"',
        "16: schedule.kind = 'cosinus': expected 'cosine', 'wsd', 'linear' or 'constant' "
        "(did you mean 'cosine'?)",
    ),
    (
        "[evaluation]",
        "[training]\ncompile = 1\n[evaluation]",
        "32: training.compile = 1: expected true or false",
    ),
    (
        "[evaluation]",
        "[init]\nstd = -1\n[evaluation]",
        "32: init.std = -1: expected a number > 0 or 'small'",
    ),
    (
        "[evaluation]",
        "[init]\nembedding_std = 'smal'\n[evaluation]",
        "32: init.embedding_std = 'smal': expected a number > 0 or 'small' (did you mean 'small'?)",
    ),
    ("weight = 2.0", "weight = 0", "25: data.sources[0].weight = 0: expected a number > 0"),
    (
        "every = 100",
        "every = 100\n[data]\nsources = []",
        "34: not valid TOML: a key is given twice (column 13)",
    ),
    # Values that do not go together.
    (
        "heads = 4\nkv",
        "heads = 3\nkv",
        "7: architecture.heads = 3 does not divide architecture.width = 64; "
        "use one of [1, 2, 4, 8, 16, 32, 64]",
    ),
    (
        "heads = 4\nkv",
        "heads = 64\nkv",
        "7: architecture.heads = 64 gives heads of 1 channels; RoPE turns pairs, so the head size "
        "must be even",
    ),
    (
        "kv_heads = 2",
        "kv_heads = 3",
        "8: architecture.kv_heads = 3 does not divide architecture.heads = 4; use one of [1, 2, 4]",
    ),
    (
        "warmup_steps = 25",
        "warmup_steps = 600",
        "18: schedule.warmup_steps = 600 is longer than the run, schedule.steps = 500; "
        "a usual warm-up is 10 steps: type --set schedule.warmup_steps=10",
    ),
    (
        "warmup_steps = 25",
        "warmup_steps = 25\ndecay_steps = 5",
        "19: schedule.decay_steps goes with kind = \"wsd\", not 'cosine'",
    ),
    (
        'kind = "cosine"',
        'kind = "wsd"\ndecay_steps = 480',
        "19: schedule.warmup_steps + decay_steps = 505 is longer than the run, "
        "schedule.steps = 500",
    ),
    (
        "global_size = 16",
        "global_size = 16\nramp_from = 4",
        "22: a batch ramp needs batch.ramp_from, ramp_increment and ramp_samples",
    ),
    (
        "global_size = 16",
        "global_size = 16\nramp_from = 4\nramp_increment = 5\nramp_samples = 100",
        "23: batch.ramp_increment = 5 does not divide global_size - ramp_from = 12",
    ),
    (
        "global_size = 16",
        "global_size = 16\nramp_from = 40\nramp_increment = 5\nramp_samples = 100",
        "22: batch.ramp_from = 40 exceeds batch.global_size = 16",
    ),
    (
        'path = "corpus/*.txt"',
        "",
        '28: data.sources[1].kind = "files" needs a data.sources[1].path',
    ),
    (
        "weight = 2.0",
        'path = "x"',
        '24: data.sources[0].kind = "stdlib" takes no data.sources[0].path',
    ),
    # Paths.
    (
        "corpus/*.txt",
        "a\\u0000b",
        " the path 'a\\x00b' cannot be used: embedded null byte",
    ),
    # TOML itself.
    (
        "heads = 4\nkv",
        "heads = 4\nheads = 4\nkv",
        "8: not valid TOML: a key is given twice (column 10)",
    ),
    ("[evaluation]", "[optimizer]", "31: not valid TOML: a section is given twice (column 11)"),
    (
        "every = 100",
        "every: 100",
        "32: not valid TOML: expected '=' after a key in a key/value pair (column 6)",
    ),
    ("every = 100", "every =", "32: not valid TOML: invalid value (column 8)"),
    ("every = 100\n", "a = " + "[" * 5000, " not valid TOML: lists or tables nested too deeply"),
    ("every = 100", "every = " + "1" * 5000, " a whole number of thousands of digits is no value"),
]


@pytest.mark.parametrize(("old", "new", "message"), IN_THE_FILE, ids=lambda text: text[:24])
def test_message(write, old, new, message):
    path = write(old, new)
    with pytest.raises(RecipeError) as caught:
        load(path)
    assert str(caught.value).replace(str(path), "recipe.toml") == f"recipe.toml:{message}"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            "[data]\nsources = []",
            "2: data.sources = []: expected a list of one or more tables: write [[data.sources]]",
        ),
        (
            "[data.sources]\nkind = 'stdlib'",
            "1: data.sources = {'kind': 'stdlib'}: expected a list "
            "of one or more tables: write [[data.sources]]",
        ),
        ("", " the section [data] is missing; it needs sources"),
    ],
)
def test_sources_that_are_no_list(tmp_path, text, lines, message):
    head, _, rest = text.partition("[[data.sources]]")
    path = tmp_path / "recipe.toml"
    path.write_text(lines + "\n[architecture]" + head.partition("[architecture]")[2])
    with pytest.raises(RecipeError) as caught:
        load(path)
    assert str(caught.value) == f"{path}:{message}"
    assert rest


@pytest.mark.parametrize(
    ("text", "meant"),
    [("5", 5), (" 12k", 12_000), ("3M", 3_000_000), ("2g", 2 * 10**9), ("1 B", 10**9),
     ("250%", None), ("1.5", None), ("1e3k", 10**6), ("7x", None), ("1e", None), ("9" * 30, None)],
)  # fmt: skip
def test_what_a_whole_number_in_quotes_stands_for(write, text, meant):
    with pytest.raises(RecipeError) as caught:
        load(write("every = 100", f"samples = '{text}'"))
    hint = "" if meant is None else f": write {meant}"
    assert str(caught.value).endswith(
        f"32: evaluation.samples = '{text}': expected a whole number > 0{hint}"
    )


# More than anything can hold: refused by number, before a library ends the process over it.
TOO_LARGE = [
    ("architecture.vocab_size=10000000000", 2**24),
    ("architecture.vocab_size=16777217", 2**24),
    ("architecture.sequence_length=99999999", 2**24),
    ("architecture.ff_width=99999999", 2**24),
    ("architecture.width=4000000", 2**20),
    ("architecture.layers=1000000000", 10**4),
    ("batch.global_size=1000000000", 2**20),
    ("batch.micro_size=1000000000", 2**20),
    ("schedule.steps=10000000000", 10**9),
    ("training.threads=100000", 4096),
    (f"training.threads={10**30}", 4096),
]


@pytest.mark.parametrize(("setting", "most"), TOO_LARGE, ids=[s for s, _ in TOO_LARGE])
def test_absurd_numbers(write, setting, most):
    name, _, number = setting.partition("=")
    with pytest.raises(RecipeError) as caught:
        load(write(), [setting])
    assert str(caught.value) == (
        f"--set {setting}: {name} = {number}: expected a whole number > 0 and <= {most}"
    )


def test_the_largest_numbers_are_taken(write):
    recipe, _ = load(write(), ["architecture.vocab_size=16777216", "batch.global_size=1048576"])
    assert recipe.architecture.vocab_size == 2**24
    assert recipe.batch.global_size == 2**20


@pytest.mark.parametrize(
    "lines",
    [
        "[" + ".".join("a" * 50_000) + "]\nx = 1\n",
        "[[ " + " . ".join(["'a'"] * 20_000) + " ]]\n",
        ".".join("a" * 50_000) + " = 1\n",
        # A name that the search for long ones does not know.
        '["é".' + ".".join("a" * 2_000) + "]\nx = 1\n",
    ],
    ids=["section", "list", "key", "quoted"],
)
def test_names_of_very_many_parts(tmp_path, lines):
    path = tmp_path / "recipe.toml"
    path.write_text(lines, encoding="utf-8")
    with pytest.raises(RecipeError) as caught:
        load(path)
    assert str(caught.value) == f"{path}: not valid TOML: lists or tables nested too deeply"


def test_dots_in_values_and_comments_are_no_depth(write):
    dots = ".".join("a" * 200)
    path = write('path = "corpus/*.txt"', f"path = '{dots}' # {dots}")
    assert load(path)[0].data.sources[1].path == str(path.parent / dots)


@pytest.mark.parametrize("value", ["[" * 100_000, "{" + ".".join("a" * 1_000) + " = 1}"])
def test_a_long_setting_is_shortened(write, value):
    with pytest.raises(RecipeError) as caught:
        load(write(), [f"seed={value}"])
    assert str(caught.value) == (
        f"--set seed={value[:52]}...: seed = '{value[:56]}...: expected a whole number >= 0"
    )


def test_a_long_unknown_key_is_shortened(write):
    with pytest.raises(RecipeError) as caught:
        load(write(), [f"{'flux.' * 20_000}x=1"])
    message = str(caught.value)
    assert message.startswith(
        f"--set {'flux.' * 11}fl...: unknown key '{'flux.' * 11}fl...'; known"
    )
    assert len(message) < 400


def test_a_file_too_large_for_a_recipe_is_not_parsed(tmp_path, text):
    path = tmp_path / "recipe.toml"
    path.write_text(text.ljust(2**17, "#"))
    assert load(path)[0].name == "small"
    with path.open("ab") as file:
        file.truncate(10**8)  # a hole: takes no room
    with pytest.raises(RecipeError) as caught:
        load(path)
    assert str(caught.value) == (f"{path}: more than 131 kB, which no recipe is; name a .toml file")


def test_names_that_cannot_be_printed_are_escaped(tmp_path, text):
    path = tmp_path / os.fsdecode(b"\xff\x1b[31m.toml")
    shown = rf"{tmp_path}/\udcff\x1b[31m.toml"
    with pytest.raises(RecipeError) as caught:
        load(path)
    assert str(caught.value) == f"{shown}: no such recipe"
    path.write_text(text.replace("steps = 500", "steps = 0"))
    with pytest.raises(RecipeError) as caught:
        load(path)
    assert str(caught.value).startswith(f"{shown}:17: schedule.steps = 0: ")
    with pytest.raises(RecipeError) as caught:
        load(path, ["schedule.steps=\x1b[31m"])
    assert str(caught.value).startswith(
        r"--set schedule.steps=\x1b[31m: schedule.steps = '\x1b[31m': "
    )


def test_the_largest_whole_number_fits_in_64_bits(write):
    assert load(write(), ["seed=9223372036854775807"])[0].seed == 2**63 - 1
    with pytest.raises(RecipeError, match=r"seed = 9223372036854775808: .* fits in 64 bits$"):
        load(write(), ["seed=9223372036854775808"])


def test_a_missing_field_says_what_it_is(write):
    path = write("learning_rate = 3e-4\n")
    with pytest.raises(RecipeError) as caught:
        load(path)
    assert str(caught.value) == (
        f"{path}:12: 'optimizer.learning_rate' is missing: expected a number > 0; "
        "Peak learning rate."
    )


SETTINGS = [
    ("optimizer.learning_rate=fast", "optimizer.learning_rate = 'fast': expected a number > 0"),
    ("optimizer.learning_rate=", "optimizer.learning_rate = '': expected a number > 0"),
    ("optimizer.learning_rate", "expected section.key=value"),
    ("=3", "expected section.key=value"),
    (
        "optimizer.learing_rate=3",
        "unknown key 'optimizer.learing_rate' (did you mean 'learning_rate'?)",
    ),
    ("learning_rate=3", "unknown key 'learning_rate' (did you mean 'optimizer.learning_rate'?)"),
    ("data.sources[0].pth=x", "unknown key 'data.sources[0].pth' (did you mean 'path'?)"),
    (
        "evaluation.x.y=1",
        "unknown key 'evaluation.x.y'; known at the top: name, seed, architecture, init, loss, "
        "optimizer, schedule, precision, batch, data, training, evaluation, checkpoint, signals, "
        "detection",
    ),
    (
        "optimizer={lr=1}",
        "unknown key 'optimizer.lr'; known in [optimizer]: name, learning_rate, "
        "beta1, beta2, eps, weight_decay, independent_decay, decay_embeddings, momentum, "
        "update_clip, reset_every, reset_warmup, element_clip, clip, clip_norm, clip_z and 7 more "
        "(docs/reference/recipe.md) (and 1 more)",
    ),
    ("optimizer=5", "optimizer = 5: expected a table"),
    ("seed=-1", "seed = -1: expected a whole number >= 0"),
    ("checkpoint.every=5%", "checkpoint.every = '5%': expected a whole number > 0"),
    ("data.sources.kind=files", "'sources' is a list: say which, sources[0]"),
    ("data.sources[2].kind=files", "there is no sources[2]; sources has 2 items"),
    ("data.sources[0].kind=files", 'data.sources[0].kind = "files" needs a data.sources[0].path'),
    (
        "data.sources={}",
        "data.sources = {}: expected a list of one or more tables: write [[data.sources]]",
    ),
    # The file is right by itself: what does not go with it is the flag.
    (
        "architecture.heads=3",
        "architecture.heads = 3 does not divide architecture.width = 64; "
        "use one of [1, 2, 4, 8, 16, 32, 64]",
    ),
    (
        "schedule.steps=10",
        "schedule.warmup_steps = 25 is longer than the run, schedule.steps = 10; "
        "a usual warm-up is 1 step: type --set schedule.warmup_steps=1",
    ),
    ("data.tokenizer=a\0b", "the path 'a\\x00b' cannot be used: embedded null byte"),
    # A line break does not smuggle in, or lose, a second key.
    (
        "schedule.steps=2\nseed=3",
        "schedule.steps = '2\\nseed=3': expected a whole number > 0 and <= 1000000000",
    ),
]


@pytest.mark.parametrize(("setting", "message"), SETTINGS, ids=[s[:24] for s, _ in SETTINGS])
def test_set_is_named_where_it_is_to_blame(write, setting, message):
    with pytest.raises(RecipeError) as caught:
        load(write(), [setting])
    shown = " ".join(setting.split()).replace("\0", r"\x00")
    assert str(caught.value) == f"--set {shown}: {message}"


def test_set_into_a_list_that_is_none(write):
    with pytest.raises(RecipeError) as caught:
        load(write(), ["data={sources=3}", "data.sources[0].weight=1"])
    assert str(caught.value) == (
        "--set data.sources[0].weight=1: there is no sources[0]; sources has 0 items"
    )


def test_set_into_a_value_that_is_no_section(write):
    with pytest.raises(RecipeError, match=r"^--set optimizer.eps=1: 'optimizer' is not a section"):
        load(write(), ["optimizer=5", "optimizer.eps=1"])
    with pytest.raises(RecipeError, match=r"'data sources' is not the name of a section"):
        _step_into({}, "data sources", "x")


def test_no_such_file_or_a_folder_or_unreadable(tmp_path):
    with pytest.raises(RecipeError) as caught:
        load(tmp_path / "gone.toml")
    assert str(caught.value) == f"{tmp_path}/gone.toml: no such recipe"
    with pytest.raises(RecipeError) as caught:
        load(tmp_path)
    assert str(caught.value) == f"{tmp_path}: is a folder; name a recipe in it, a .toml file"
    link = tmp_path / "loop.toml"
    os.symlink(link, link)
    with pytest.raises(RecipeError, match=r"loop.toml: cannot read this recipe: Too many levels"):
        load(link)


def test_bytes_that_are_not_utf8_are_named_with_their_line(tmp_path):
    path = tmp_path / "latin1.toml"
    path.write_bytes(b"name = 'a'\n# caf\xe9\n")
    with pytest.raises(RecipeError) as caught:
        load(path)
    assert str(caught.value) == f"{path}:2: byte 0xe9 is not UTF-8; save the file as UTF-8"


def test_nothing_in_the_file(tmp_path):
    path = tmp_path / "empty.toml"
    path.write_text("# later\n")
    with pytest.raises(RecipeError) as caught:
        load(path)
    assert str(caught.value) == (
        f"{path}: nothing in it; a recipe needs the sections architecture, optimizer, schedule, "
        "batch, data"
    )


def test_a_byte_order_mark_is_no_error(tmp_path, text):
    path = tmp_path / "windows.toml"
    path.write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    assert load(path)[0].name == "small"


def test_errors_of_a_stored_spec_name_the_file():
    with pytest.raises(RecipeError, match=r"^spec.toml: unknown key 'x'; known at the top: name, "):
        Recipe.parse({"x": 1}, where="spec.toml")
