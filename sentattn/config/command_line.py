"""What every command shares: arguments, help, faults as sentences, exit codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from sentattn.config import types
from sentattn.errors import Interruption, SettingError, UserError, suggestion

SPIN_COUNT = "5000"
OK, FAULT, BROKEN_PIPE, INTERRUPTED = 0, 2, 141, 130


class _Answered(Exception):  # noqa: N818 - it is no error
    """The command has shown what was asked for and is done."""


def run(command: Callable[[list[str]], None], argv: Sequence[str] | None = None) -> int:
    """Runs a command; its module's docstring is its help.

    Args:
        command: Takes the arguments; raises `UserError` with what the user can mend.
        argv: Arguments; None for those of the process.

    Returns:
        The exit code: 0, 2 for a fault of the user's, 130 when interrupted, 143 when ended by SIGTERM.
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
    """Parts `--cfg job`, which asks for all settings, from the other arguments."""
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
    keys: Mapping[str, str],
    positional: str | None = None,
    *,
    required: Sequence[str] = (),
) -> dict[str, Any]:
    """Reads `key=value` with values taken as they were typed: `text=It's great, but slow (10/10)!` works.

    Args:
        argv: The arguments.
        keys: Legal keys with their annotations, as in `sentattn.config.types`; where text is legal, a value stays text.
        positional: Name for the words that stand without a key; None where there are none.
        required: Keys that must be given.

    Returns:
        What was given, by key; words without a key as a list under `positional`.

    Raises:
        SettingError: With all faults.
    """
    found: dict[str, Any] = {positional: []} if positional else {}
    faults: list[str] = []
    for word in argv:
        key, equals, text = word.partition("=")
        if key in keys and equals:
            if key in found:
                faults.append(f"{key} is given twice, as {found[key]} and as {text}: leave one out.")
                continue
            found[key] = _converted(text, keys[key])
            if not text:
                faults.append(f"{key}= has no value: it takes {types.legal(keys[key])[0]}.")
            elif fault := types.fault(key, keys[key], found[key]):
                faults.append(fault)
        elif positional and not word.startswith("-") and not (equals and key.isidentifier()):
            found[positional].append(word)
        else:
            faults.append(_unknown(word, keys))
    faults += [f"{key} is missing: type {key}={key.upper()}." for key in required if key not in found]
    if faults:
        raise SettingError(*dict.fromkeys(faults))
    return found


def take(argv: Sequence[str], names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Parts the arguments `name=...` of the names given from the rest."""
    own = [word for word in argv if word.partition("=")[0] in names]
    return own, [word for word in argv if word not in own]


def _converted(text: str, annotation: str) -> Any:
    """The text itself where text is legal, else the number or word that it spells."""
    _, fits = types.legal(annotation)
    return text if fits(text) else types.spelled(text)


def _unknown(word: str, keys: Mapping[str, str]) -> str:
    key, equals, _ = word.partition("=")
    there = f"Its settings are {', '.join(keys)}." if keys else "It has no settings."
    if word.startswith("-"):
        return f"{word} is no option.{suggestion(key.lstrip('-'), keys)} {there}"
    if equals:
        return f"{word}: there is no setting {key!r}.{suggestion(key, keys)} {there}"
    return f"{word!r} is no setting: settings are written key=value. {there}"
