"""``gluonops completion`` prints a script for the shell. Like all modules that the command imports first, this one
needs no MXNet."""
from __future__ import annotations

import argparse
import importlib
import json

SCRIPTS = {"train": ("finetune_detector", "finetune_classifier", "train_darknet"), "val": ("evaluate",)}
SHELL = """\
_gluonops() {{
    local words
    case "${{COMP_WORDS[1]}}" in
{cases}
    esac
    [ "$COMP_CWORD" -eq 1 ] && words="{commands}"
    COMPREPLY=($(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
[ -z "$ZSH_VERSION" ] || {{ autoload -U +X compinit bashcompinit && compinit && bashcompinit; }}
complete -o default -F _gluonops gluonops"""


def run(args: argparse.Namespace) -> None:
    """Print the script for ``args.whole``, the parser of all commands."""
    words = {name: sorted([*command._option_string_actions, *_options_of_scripts(name)])
             for name, command in args.whole._subparsers._group_actions[0].choices.items()}
    if args.json:
        print(json.dumps(words))
    else:
        cases = "\n".join(f'        {name}) words="{" ".join(options)}";;' for name, options in words.items())
        print(SHELL.format(cases=cases, commands=" ".join(words)))


def _options_of_scripts(command):
    """The options of the scripts that a command runs; none where MXNet is not installed."""
    options = set()
    for name in SCRIPTS.get(command, ()):
        try:
            script = importlib.import_module(f"gluonops.examples.{name}")
        except ImportError:
            return ()
        options |= script.make_options().parser._option_string_actions.keys()
    return options
