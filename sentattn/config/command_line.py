"""What every command shares: arguments, help, error messages, exit codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from sentattn.config import types
from sentattn.errors import Fault, Interruption, SettingError, UserError, suggestion

CONFIG_DIR = "--config-dir"
SPIN_COUNT = "5000"
OK, FAULT, BROKEN_PIPE, INTERRUPTED = 0, 2, 141, 130


class _Answered(Exception):  # noqa: N818 - it is no error
    """The command has printed what was asked for and is done."""


def run(command: Callable[[list[str]], None], argv: Sequence[str] | None = None) -> int:
    """Runs a command; its module's docstring is its help.

    Args:
        command: Takes the arguments; raises `UserError` with what the user can correct.
        argv: Arguments; None for those of the process.

    Returns:
        The exit code: 0, 2 for an error that the user can correct, 130 when interrupted, 143 when ended by SIGTERM.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    if "OMP_WAIT_POLICY" not in os.environ:
        # GNU OpenMP's threads spin for milliseconds while they wait, and so keep the core from the thread they
        # wait for wherever another process wants one too. To be set before torch is imported.
        os.environ.setdefault("GOMP_SPINCOUNT", SPIN_COUNT)
    # torch takes large tensors from huge pages then: a step on a CPU spends a quarter of its time on small ones.
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")
    try:
        if "--help" in arguments or "-h" in arguments:
            print((sys.modules[command.__module__].__doc__ or "").strip())
        else:
            command(arguments)
        sys.stdout.flush()
    except _Answered:
        return OK
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
        # The reader has gone; without this Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    return OK


def take_cfg(arguments: Sequence[str]) -> tuple[list[str], bool]:
    """Splits `--cfg job`, which asks for all settings, from the other arguments."""
    joined = " ".join(arguments).replace("--cfg=job", "--cfg job")
    if "--cfg job" not in joined:
        return list(arguments), False
    rest = [word for word in arguments if word != "--cfg=job"]
    for position in range(len(rest) - 1, 0, -1):
        if rest[position - 1 : position + 1] == ["--cfg", "job"]:
            del rest[position - 1 : position + 1]
    return rest, True


def show(settings: Mapping[str, Any]) -> NoReturn:
    """Prints settings and ends the command."""
    import yaml

    print(yaml.safe_dump(dict(settings), sort_keys=False, allow_unicode=True), end="", flush=True)
    raise _Answered


def raw_arguments(
    argv: Sequence[str],
    keys: Mapping[str, Any],
    positional: str | None = None,
    *,
    required: Sequence[str] = (),
) -> dict[str, Any]:
    """Reads `key=value` with values taken as they were typed: `text=It's great, but slow (10/10)!` works.

    Args:
        argv: The arguments.
        keys: Legal keys with their types; where text is legal, a value stays text.
        positional: Name for the words without a key; None where there are none.
        required: Keys that must be given.

    Returns:
        Values by key; words without a key as a list under `positional`.

    Raises:
        SettingError: With all faults.
    """
    values: dict[str, Any] = {positional: []} if positional else {}
    faults: list[Fault] = []
    for word in argv:
        key, equals, text = word.partition("=")
        if key in keys and equals:
            if key in values:
                message = f"{key} is given twice, as {values[key]} and as {text}: leave one out."
                faults.append(Fault(key, "conflict", message))
                continue
            values[key] = text if types.mismatch(keys[key], text) is None else types.parse(text)
            if not text:
                message = f"{key}= has no value: it must be {types.words(keys[key])}."
                faults.append(Fault(key, "missing", message))
            elif fault := types.fault(key, keys[key], values[key]):
                faults.append(fault)
        elif positional and not word.startswith("-") and not (equals and key.isidentifier()):
            values[positional].append(word)
        else:
            faults.append(_unknown(word, keys))
    faults += [
        Fault(key, "missing", f"{key} is missing: type {key}={key.upper()}.") for key in required if key not in values
    ]
    if faults:
        raise SettingError(*dict.fromkeys(faults))
    return values


def run_first(argv: Sequence[str], keys: Mapping[str, Any]) -> list[str]:
    """Returns the arguments of a command that reads a run, whose directory may be typed without `run=`.

    Raises:
        SettingError: If several words have no key, such as a text that was typed without quotes.
    """
    bare = [place for place, word in enumerate(argv) if "=" not in word and not word.startswith("-")]
    bare = [place for place in bare if argv[place - 1] != CONFIG_DIR or not place]
    named = any(word.startswith("run=") for word in argv)
    if len(bare) + named > 1:
        texts = [place for place in range(len(argv)) if argv[place].partition("=")[0] == "text" and "text" in keys]
        if texts and texts[0] + 1 in bare:
            text = " ".join([argv[texts[0]].partition("=")[2], *(argv[p] for p in bare if p > texts[0])])
            message = f'the text ends at the first space: put it in quotes, text="{text}".'
            raise SettingError(Fault("text", "unreadable", message))
        extra = argv[bare[0 if named else 1]]
        message = f"{extra!r} is no setting: settings are written key=value, and one run directory may have no key."
        raise SettingError(Fault(extra, "unknown", message))
    return [f"run={word}" if place in bare else word for place, word in enumerate(argv)]


def take(argv: Sequence[str], names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Splits the arguments `name=...` of the names given from the rest."""
    own = [word for word in argv if word.partition("=")[0] in names]
    return own, [word for word in argv if word not in own]


def _unknown(word: str, keys: Mapping[str, Any]) -> Fault:
    key, equals, _ = word.partition("=")
    legal = f"Its settings are {', '.join(keys)}." if keys else "It has no settings."
    if word.startswith("-"):
        message = f"{word} is no option.{suggestion(key.lstrip('-'), keys)} {legal}"
    elif equals:
        message = f"{word}: there is no setting {key!r}.{suggestion(key, keys)} {legal}"
    else:
        message = f"{word!r} is no setting: settings are written key=value. {legal}"
    return Fault(key, "unknown", message)
