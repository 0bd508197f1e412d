"""Shared by all commands: arguments, help, error messages, exit codes."""

from __future__ import annotations

import atexit
import errno
import functools
import gc
import io
import os
import sys
from collections.abc import Callable, Mapping, Sequence

from sentattn.config import types
from sentattn.config.schema import REFERENCE
from sentattn.config.types import Kind, Tree
from sentattn.errors import Fault, Interruption, SettingError, UserError, suggestion

CONFIG_DIR = "--config-dir"
SPIN_COUNT = "5000"
GC_THRESHOLD = 50_000
"""New objects after which Python looks for garbage among them, by default 700."""
WORDS = ("text", "column")
"""Keys that may hold anything."""
OK, FAULT, BROKEN_PIPE, INTERRUPTED = 0, 2, 141, 130


def command(function: Callable[[list[str]], int | None]) -> Callable[..., int]:
    """Returns a command that calls a function with its arguments, by default those of the process.

    The docstring of the function's module is its help. It returns an exit code: 0, 2 for an error that the user can
    correct, 130 when interrupted, 143 when ended by SIGTERM, or that which the function returns.
    """

    @functools.wraps(function)
    def main(argv: Sequence[str] | None = None) -> int:
        arguments = list(sys.argv[1:] if argv is None else argv)
        # Both are to be set before torch is imported. GNU OpenMP's threads spin for milliseconds while they wait, and
        # so keep the core from the thread they wait for wherever another process wants one too.
        if "OMP_WAIT_POLICY" not in os.environ:
            os.environ.setdefault("GOMP_SPINCOUNT", SPIN_COUNT)
        # Large tensors from huge pages: a step on a CPU spends a quarter of its time on small ones.
        os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")
        # Looking for garbage after every 700 new objects is an eighth of the time of importing torch and Lightning, and
        # at exit Python looks at all of them again, for a second.
        gc.set_threshold(GC_THRESHOLD)
        atexit.register(gc.freeze)
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):  # a character that a terminal lacks is printed as another
                stream.reconfigure(errors="replace")
        code = OK
        try:
            if "--help" in arguments or "-h" in arguments:
                print((sys.modules[function.__module__].__doc__ or "").strip())
            else:
                code = function(arguments) or OK
            sys.stdout.flush()
        except UserError as error:
            for fault in error.faults:
                print(f"error: {fault}", file=sys.stderr)
            return FAULT
        except Interruption as error:
            print(error, file=sys.stderr)
            return error.exit_code
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
            return INTERRUPTED
        except BrokenPipeError:
            # The reader has closed the pipe; without this Python would report it again when it flushes at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return BROKEN_PIPE
        except OSError as error:
            if error.errno != errno.ENAMETOOLONG:
                raise
            print(f"error: the name of a file or folder is too long: {error.filename}", file=sys.stderr)
            return FAULT
        return code

    return main


def take_cfg(arguments: Sequence[str]) -> tuple[list[str], bool]:
    """Splits `--cfg job`, which asks for all settings, from the other arguments."""
    rest = [word for word in arguments if word != "--cfg=job"]
    while "--cfg" in rest and rest[(place := rest.index("--cfg")) + 1 :][:1] == ["job"]:
        del rest[place : place + 2]
    return rest, len(rest) < len(arguments)


def take(argv: Sequence[str], names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Splits the arguments of some names, with or without a value, from the rest."""
    taken = [word for word in argv if word.partition("=")[0] in names]
    return taken, [word for word in argv if word not in taken]


def read_values(
    argv: Sequence[str], keys: Mapping[str, Kind], positional: str | None = None
) -> tuple[Tree, list[Fault]]:
    """Reads `key=value` with values taken as they were typed: `text=It's great, but slow (10/10)!` works.

    Args:
        argv: The arguments.
        keys: Legal keys with their types; where text is legal, a value stays text.
        positional: Name for the list of words without a key; None where there are none.

    Returns:
        Legal values by key, and what is wrong with the others.
    """
    values: Tree = {positional: []} if positional else {}
    texts: dict[str, str] = {}
    faults: list[Fault | None] = []
    for word in argv:
        key, equals, text = word.partition("=")
        if key not in keys or not equals:
            if positional and not word.startswith("-") and not (equals and all(map(str.isidentifier, key.split(".")))):
                values[positional].append(os.path.expanduser(word))
                continue
            close = suggestion(key.lstrip("-+"), keys)
            legal = (
                f"settings are written key=value, with a key of {', '.join(keys)}" if keys else "this command has none"
            )
            kind = "missing" if key in keys else "unknown"
            faults.append(Fault(key, kind, f"{word} is not a setting: {legal}.{close}"))
        elif key in texts:
            message = f"{key} is given twice, as {texts[key]} and as {text}: leave one out."
            faults.append(Fault(key, "conflict", message))
        elif not text:
            faults.append(Fault(key, "missing", f"{key}= has no value: it must be {types.describe_type(keys[key])}."))
        elif key not in WORDS and (fault := reference_fault(key, text)):
            faults.append(fault)
        else:
            texts[key] = text
            # Some shells leave the `~` in `output_dir=~/runs`.
            text = text if key in WORDS else os.path.expanduser(text)
            value = text if types.mismatch(keys[key], text) is None else types.parse(text)
            faults.append(types.fault(key, keys[key], value))
            if not faults[-1]:
                values[key] = value
    return values, [fault for fault in faults if fault]


def reference_fault(key: str, text: str) -> Fault | None:
    """Returns the fault of a value with a reference, or None."""
    if not (reference := REFERENCE.search(text)):
        return None
    message = f'{key}={text}: {reference[0]} is not resolved; the shell puts in variables where it reads {key}="$NAME".'
    return Fault(key, "type", message)


def raw_arguments(
    argv: Sequence[str], keys: Mapping[str, Kind], positional: str | None = None, *, required: Sequence[str] = ()
) -> Tree:
    """Returns the values that `read_values` reads.

    Raises:
        SettingError: With all faults, missing keys that are required among them.
    """
    values, faults = read_values(argv, keys, positional)
    faults += [
        Fault(key, "missing", f"{key} is missing: type {key}={key.upper()}.")
        for key in required
        if key not in values and all(fault.key != key for fault in faults)
    ]
    if faults:
        raise SettingError(*dict.fromkeys(faults))
    return values


def run_first(argv: Sequence[str], keys: Mapping[str, Kind]) -> list[str]:
    """Returns the arguments of a command that reads a run, whose directory may be typed without `run=`.

    Raises:
        SettingError: If several words have no key, such as a text that was typed without quotes.
    """
    bare = [place for place, word in enumerate(argv) if "=" not in word and not word.startswith("-")]
    bare = [place for place in bare if argv[place - 1] != CONFIG_DIR or not place]
    named = any(word.startswith("run=") for word in argv)
    if len(bare) + named > 1:
        texts = [place for place, word in enumerate(argv) if word.startswith("text=") and "text" in keys]
        if texts and texts[0] + 1 in bare:
            text = " ".join([argv[texts[0]].partition("=")[2], *(argv[p] for p in bare if p > texts[0])])
            message = f'the text ends at the first space: put it in quotes, text="{text}".'
            raise SettingError(Fault("text", "unreadable", message))
        extra = argv[bare[0 if named else 1]]
        message = f"{extra!r} is not a setting: settings are written key=value, and one run directory may have no key."
        raise SettingError(Fault(extra, "unknown", message))
    return [f"run={word}" if place in bare else word for place, word in enumerate(argv)]
