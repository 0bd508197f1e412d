"""Errors: what they never show."""

from __future__ import annotations

import pytest

from sentattn.errors import Fault, RunError


@pytest.mark.parametrize(
    ("typed", "shown"),
    [
        ("postgresql://me:s3cret@host/db", "postgresql://me:***@host/db"),
        ("http://me:s3@cret@host:5000", "http://me:***@host:5000"),
        ("mysql://host/db?user=me&password=s3cret&ssl=1", "mysql://host/db?user=me&password=***&ssl=1"),
        ("http://host:5000/path", "http://host:5000/path"),
    ],
)
def test_passwords_of_urls_are_not_shown(typed: str, shown: str) -> None:
    error = RunError(Fault("logger.tracking_uri", "network", f"logger.tracking_uri={typed} does not answer."))
    assert shown in str(error)
    assert "s3cret" not in str(error)
    assert "s3@cret" not in str(error)
