"""The stand-alone script imports nothing of the package, and no reader of pickles."""

from __future__ import annotations

import ast
from pathlib import Path

from sentattn.export import predict


def test_the_script_imports_no_pickle_reader() -> None:
    tree = ast.parse(Path(predict.__file__).read_text())
    imports = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imports |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    called = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    standard = {"__future__", "collections.abc", "json", "pathlib", "sys", "typing", "unicodedata"}
    assert imports - standard == {"numpy", "onnxruntime", "tokenizers"}
    assert not called & {"eval", "exec", "compile", "__import__"}
