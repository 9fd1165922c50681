"""Every command in the README and the docs is one that can be run: `make commands` runs them, this checks their words."""
import functools
import re
import shlex
import shutil
from pathlib import Path

import pytest
from conftest import ROOT
from dvc.cli import parse_args
from dvc.utils.hydra import apply_overrides
from ruamel.yaml import YAML
from test_dvc import paths, stages

from docs.commands import ELSEWHERE, INSTEAD, PAGES, all_commands, commands, edit
from stages.plan import plan_all

COMMANDS = [command for _, command in all_commands(PAGES)]


def test_commands_are_the_lines_of_shell_blocks_and_code_that_begins_with_a_tool():
    text = """Say `make  x` and `dvc push`, `dvc exp show`, `dvc repro\nplan`, `python -m stages.<name>`.

```sh
#!/bin/sh
make c
```

```sh
# a remark
dvc repro     # what is stale
python a.py --count '#1' ...
make b
```

```yaml
make: c
```
"""
    assert commands(text) == ["make x", "dvc repro plan", "dvc repro", "make b"]


def test_what_is_run_elsewhere_or_replaced_still_stands_in_the_docs():
    assert [command for command in ELSEWHERE if command not in COMMANDS] == []
    assert [words for words in INSTEAD if not any(words in command for command in COMMANDS)] == []


@pytest.mark.parametrize("command", [command for command in COMMANDS if command.startswith("dvc ")])
def test_every_dvc_command_is_one_of_dvc_and_its_targets_and_settings_exist(command, tmp_path):
    for part in filter(re.compile(r"dvc [^$]*$").match, command.split(" && ")):
        words = parse_args(shlex.split(part)[1:])
        targets = words.targets if getattr(words, "cmd", "") in ("repro", "status", "checkout", "run") else []
        assert [target for target in targets or [] if target not in names()] == []
        if settings := getattr(words, "set_param", None):
            for chosen in split(settings):
                shutil.copy2(ROOT / "params.yaml", tmp_path)
                edit(tmp_path / "params.yaml")  # the entry `photos`
                apply_overrides(tmp_path / "params.yaml", chosen)
                assert plan_all(YAML(typ="safe").load(tmp_path / "params.yaml"))


@pytest.mark.parametrize("command", [command for command in COMMANDS if command.split()[0] in ("make", "python")])
def test_every_target_of_make_and_every_script_exists(command):
    tool, name, *rest = command.split()
    if tool == "make":
        assert re.search(rf"^{name}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    elif name == "-m":
        assert rest[0] == "pytest" or (ROOT / f"{rest[0].replace('.', '/')}.py").is_file()
    else:
        assert (ROOT / name).is_file()


@functools.cache
def names():
    """What a target may be: a stage, or a path that one writes."""
    found = stages()
    return set(found) | {path for stage in found.values() for path in paths(stage.outs, Path(ROOT))}


def split(settings):
    """`-S a=1,2 -S b=3` as DVC's queue takes it: one experiment with a = 1, one with a = 2."""
    first, *rest = settings
    key, _, values = first.partition("=")
    return [[f"{key}={value}", *rest] for value in values.split(",")]
