"""Files to leaves with lines, in each language; what is damaged is said with its line."""

import math

import pytest

from surefoot.errors import ConfigError
from surefoot.readers.configs.documents import jsons, load, python, tomls, yamls
from surefoot.readers.configs.documents.tree import TooDeep, flatten


def leaves(node):
    return {key: (leaf.value, leaf.line) for key, leaf in flatten(node).items()}


# ---------------------------------------------------------------------------------------- JSON


def test_json_leaves_have_the_line_of_their_value():
    text = (
        '{\n "a": 1,\n "b": {\n  "c": [1, 2.5,\n "x"],\n "d": {}\n },\n'
        ' "e": [{"f": null}, {"f":\n\ntrue}]}'
    )
    node, repeated, _ = jsons.parse(text)
    assert leaves(node) == {
        "a": (1, 2),
        "b.c": ((1, 2.5, "x"), 4),
        "b.d": ({}, 6),
        "e[0].f": (None, 8),
        "e[1].f": (True, 10),
    }
    assert repeated == []


def test_json_numbers():
    node, _, _ = jsons.parse(
        '{"a": 1e-4, "b": -0.5, "c": NaN, "d": -Infinity, "e": 12345678901234567890}'
    )
    values = {key: leaf.value for key, leaf in flatten(node).items()}
    assert values["a"] == 1e-4
    assert values["b"] == -0.5
    assert math.isnan(values["c"])
    assert values["d"] == -math.inf
    assert values["e"] == 12345678901234567890


def test_json_text_with_escapes_and_line_breaks_around():
    node, _, _ = jsons.parse('{"a": "x\\n\\"y\\u00e4",\r\n"b":"\u4f60"}')
    assert leaves(node) == {"a": ('x\n"yä', 1), "b": ("你", 2)}


def test_json_keys_given_twice():
    text = '{"a": {"b": 1,\n"b": 2, "c": 3, "c": 3}}'
    node, repeated, _ = jsons.parse(text)
    assert leaves(node)["a.b"] == (2, 2)
    assert [(old.key, old.value, old.line, new.value, new.line) for old, new in repeated] == [
        ("a.b", 1, 1, 2, 2)
    ]


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ('{"a": 1,\n}', 2, "a comma too many"),
        ('{"a": 1\n"b": 2}', 2, "expected a comma before"),
        ('{"a": True}', 1, "JSON writes true"),
        ('{\n// hello\n"a": 1}', 2, "JSON has no comments"),
        ('{"a": 1,\n"b": [1, 2', 2, "ends in the middle"),
        ('{"a" 1}', 1, "expected a colon"),
        ("{a: 1}", 1, "a key in double quotes"),
        ('{"a": 01}', 1, "no JSON value"),
        ('{"a": 1}}', 1, "something follows"),
        ('{"a": "\\x"}', 1, "wrong escape"),
        ('{"a": ]}', 1, "cannot stand here"),
    ],
)
def test_json_errors_name_the_line(text, line, words):
    with pytest.raises(jsons.NotJson) as caught:
        jsons.parse(text)
    assert caught.value.line == line
    assert words in str(caught.value)


# ---------------------------------------------------------------------------------------- YAML


def yaml(text):
    (document,) = yamls.parse(text)
    return flatten(document[0])


def test_yaml_scalars_and_lines():
    found = yaml(
        "a: 1\nb: 0.5\nc: true\nd: off\ne: ~\nf: '1'\ng: hello world\nh: [1, 2]\n"
        "i:\n  j: 1_000\n  k: 0x10\nl: .nan\nm: 1.0e-4\nn: 010\no:\n- p: 1\n- p: 2\n"
    )
    values = {key: leaf.value for key, leaf in found.items()}
    assert math.isnan(values.pop("l"))
    assert values == {
        "a": 1, "b": 0.5, "c": True, "d": False, "e": None, "f": "1", "g": "hello world",
        "h": (1, 2), "i.j": 1000, "i.k": 16, "m": 1e-4, "n": 8, "o[0].p": 1, "o[1].p": 2,
    }  # fmt: skip
    assert {found[key].line for key in ("a",)} == {1}
    assert found["i.k"].line == 11
    assert found["o[1].p"].line == 17


@pytest.mark.parametrize("text", ["1e-4", "6e-5", "1.0e6", "1E5", "5e9"])
def test_yaml_numbers_that_yaml_reads_as_text_are_numbers_and_marked(text):
    leaf = yaml(f"lr: {text}")["lr"]
    assert leaf.value == float(text)
    assert leaf.misread


@pytest.mark.parametrize("text", ["1.0e-4", "1.0e+6", "0.1", "3", "e5", "1e", "a1e4", "'1e-4'"])
def test_yaml_other_scalars_are_not_marked(text):
    assert not yaml(f"lr: {text}")["lr"].misread


def test_yaml_anchors_aliases_and_merge_keys():
    found = yaml("base: &b\n  x: 1\n  y: 2\none:\n  <<: *b\n  y: 3\ntwo: *b\n")
    assert {key: leaf.value for key, leaf in found.items()} == {
        "base.x": 1, "base.y": 2, "one.x": 1, "one.y": 3, "two.x": 1, "two.y": 2,
    }  # fmt: skip


def test_yaml_tags_are_never_constructed(tmp_path):
    mark = tmp_path / "mark"
    found = yaml(f'a: !!python/object/apply:os.system ["touch {mark}"]\nb: !x 1\n')
    assert not mark.exists()
    assert found["a"].value == (f"touch {mark}",)


def test_yaml_keys_given_twice():
    (document,) = yamls.parse("a: 1\nb:\n  c: 2\n  c: 3\na: 1\n")
    assert [(old.key, old.value, new.value, new.line) for old, new in document[1]] == [
        ("b.c", 2, 3, 4)
    ]


def test_yaml_errors():
    with pytest.raises(yamls.NotYaml) as caught:
        yamls.parse("a: 1\nb: [1, 2\nc: 3\n")
    assert caught.value.line in (2, 3, 4)
    with pytest.raises(yamls.NotYaml, match=r"no anchor|undefined alias"):
        yamls.parse("a: *nowhere\n")


def test_yaml_bombs_are_refused():
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 12)]
    with pytest.raises(TooDeep):
        yamls.parse("\n".join(lines))
    with pytest.raises((TooDeep, yamls.NotYaml), match=r"nest"):
        yamls.parse("a: " + "[" * 5000)


# ------------------------------------------------------------------------------ TOML and Python


def test_toml_lines():
    node = tomls.parse(
        '# c\n[a]\nb = 1\n"c" = "x"\n[[d]]\ne = 1\n[[d]]\ne = 2\n[f.g]\nh = {i = 1}\n'
    )
    assert leaves(node) == {
        "a.b": (1, 3),
        "a.c": ("x", 2),
        "d[0].e": (1, 6),
        "d[1].e": (2, 8),
        "f.g.h.i": (1, 10),
    }


def test_toml_errors():
    with pytest.raises(tomls.NotToml) as caught:
        tomls.parse("a = 1\nb = \n")
    assert caught.value.line == 2
    for text in ("a = " + "[" * 100_000, "a" + ".a" * 100_000 + " = 1"):
        with pytest.raises(TooDeep):
            tomls.parse(text)


def test_python_settings():
    node = python.parse(
        "import os\n"
        "batch_size = 12\n"
        "accumulation = 5 * 8 # for 8 ranks\n"
        "tokens = batch_size * accumulation * 1024\n"
        "lr = 6e-4\n"
        "min_lr = lr / 10\n"
        "device = 'cuda' + ':0'\n"
        "flag: bool = not False\n"
        "a, b = 1, -2\n"
        "sizes = [1, 2 * 3]\n"
        "table = dict(x=1, y={'z': 2})\n"
        "steps = int(1e4)\n"
        "class Config:\n    width: int = 64\n    name: str\n"
        "batch_size += 1\n"
    )
    found = {key: leaf.value for key, leaf in flatten(node).items()}
    assert found == {
        "batch_size": 13, "accumulation": 40, "tokens": 12 * 40 * 1024, "lr": 6e-4,
        "min_lr": 6e-4 / 10, "device": "cuda:0", "flag": True, "a": 1, "b": -2, "sizes": (1, 6),
        "table.x": 1, "table.y.z": 2, "steps": 10_000, "Config.width": 64,
    }  # fmt: skip
    assert flatten(node)["tokens"].line == 4


def test_python_is_never_run_and_what_would_need_it_is_open(tmp_path):
    mark = tmp_path / "mark"
    node = python.parse(
        f"a = __import__('os').system('touch {mark}')\n"
        "b = os.environ['X']\n"
        "c = a + 1\n"
        "d = 9 ** 9 ** 9 ** 9\n"
        "e = 'x' * 10 ** 10\n"
        "f = 1 / 0\n"
        "if b:\n    g = 1\nelse:\n    g = 2\n"
        "h = 3\n"
        "for i in range(2):\n    h = 3\n"
        "k = g\n"
        "z = f'{h}'\n"
    )
    found = flatten(node)
    assert not mark.exists()
    assert {key for key, leaf in found.items() if leaf.open} == set("abcdefgkz")
    assert (found["h"].value, found["h"].open) == (3, None)
    assert "line 10" in found["g"].open


@pytest.mark.parametrize(
    "text",
    ["x = (", "x = " + "(" * 10_000, "x = " + "-" * 100_000 + "1", "x = 1" + " + 1" * 200_000],
)
def test_python_errors(text):
    with pytest.raises(python.NotPython):
        python.parse(text)


# --------------------------------------------------------------------------------------- files


def test_pickles_and_binaries_are_refused(write):
    for data in (b"PK\x03\x04\x00\x00", b"\x80\x04\x95\x10\x00", b"\x80\x02}q\x00."):
        with pytest.raises(ConfigError, match=r"pickle.*never loaded.*to_json_string"):
            load(write("training_args.bin", data))
    for data in (b"\x7fELF\x02\x01\x00\x00\x00" * 10, b"\x00" * 100):
        with pytest.raises(ConfigError, match="binary"):
            load(write("x", data))


def test_other_encodings_and_packing(write):
    import gzip

    text = '{"steps_per_print": 5}'
    for data in (
        text.encode("utf-16"),
        b"\xef\xbb\xbf" + text.encode(),
        gzip.compress(text.encode()),
    ):
        parts, problem = load(write("x", data))
        assert problem is None
        assert parts[0][0].leaves["steps_per_print"].value == 5


def test_a_folder_and_a_missing_file(tmp_path):
    with pytest.raises(ConfigError, match="is a folder"):
        load(tmp_path)
    with pytest.raises(ConfigError, match="nowhere"):
        load(tmp_path / "nowhere")


def test_json_that_is_torn_is_said_with_the_line(write):
    path = write("ds.json", '{"a": 1,\n"b": ')
    with pytest.raises(ConfigError, match=r"ds\.json:2: not valid JSON: the file ends"):
        load(path)


def test_windows_line_ends(write):
    parts, _ = load(write("x.yaml", "a: 1\r\nb: 2\r\n"))
    (document,) = [d for d in parts[0] if d.kind == "yaml"]
    assert document.leaves["b"].line == 2


def test_values_of_wandb_are_unwrapped(write):
    text = (
        "wandb_version: 1\n\n_wandb:\n  value:\n    cli: 1\nlr:\n  desc: null\n  value: 0.1\n"
        "m:\n  value:\n    n: 2\n"
    )
    parts, _ = load(write("config.yaml", text))
    (document,) = [d for d in parts[0] if d.kind == "yaml"]
    assert document.wrapper == "W&B"
    assert {key: leaf.value for key, leaf in document.leaves.items()} == {"lr": 0.1, "m.n": 2}
    assert document.leaves["lr"].line == 8


def test_yaml_that_begins_like_json(write):
    text = '{\n  # comment\n  "num-layers": 12,\n  "lr": 1.0e-4,\n  "on": True,\n}\n'
    parts, _ = load(write("small.yml", text))
    (document,) = parts[0]
    assert document.kind == "yaml"
    assert {key: (leaf.value, leaf.line) for key, leaf in document.leaves.items()} == {
        "num-layers": (12, 3), "lr": (1e-4, 4), "on": (True, 5),
    }  # fmt: skip
    with pytest.raises(ConfigError, match="JSON has no comments"):
        load(write("small.json", text))
