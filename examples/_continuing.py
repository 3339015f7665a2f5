"""The checkpoint that a fine-tuning script resumes, and the command that resumes the last one."""
import os
import pathlib
import shlex
import sys

from _common import call

LAST = "last.checkpoint"


def checkpoint_to_continue(args):
    """The checkpoint file of --resume; None to start from the beginning."""
    wanted = getattr(args, "resume", None)
    path = args.out / LAST if wanted == "auto" else wanted and pathlib.Path(wanted)
    return None if path is None or (wanted == "auto" and not path.exists()) else path


def command_to_continue():
    """The command that resumes the last checkpoint under --out."""
    words, drop_value = [], False
    for word in sys.argv:
        name, equals, _ = word.partition("=")
        is_resume = len(name) > len("--r") and "--resume".startswith(name)   # argparse takes it shortened
        if not is_resume and not (drop_value and not word.startswith("-")):
            words.append(word)
        drop_value = is_resume and not equals
    launcher = os.environ.get("LAUNCH_LOCAL")
    return " ".join(filter(None, [launcher, shlex.join(["python", *words, "--resume", "auto"])]))


def call_to_continue(main, arguments):
    """``main(arguments())`` of a script whose runs can be continued; see ``_common.call``."""
    call(main, arguments, LAST, f". To continue: {command_to_continue()}")
