"""A PostgreSQL server of its own, on loopback and without rights, from Debian's package."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from pathlib import Path

PASSWORD = "s3cr{e}t"
"""With braces, which Optuna takes for a template where they are not quoted."""
PROGRAMS = sorted(Path("/usr/lib/postgresql").glob("*/bin"))


class PostgresServer:
    """Started on entry, removed on exit; its databases need the password."""

    def __init__(self) -> None:
        folder = Path(tempfile.mkdtemp(prefix="sentattn-postgres-"))  # the user of the server sees no other of pytest's
        self._folder = folder
        self._data = folder / "data"
        self._log = folder / "log.txt"
        self._user = {"user": "postgres", "group": "postgres"} if os.geteuid() == 0 else {}  # it refuses to run as root
        self._process: subprocess.Popen[bytes] | None = None
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        folder.chmod(0o711)
        secret = folder / "password.txt"
        secret.write_text(PASSWORD)
        self._data.mkdir()
        if self._user:
            shutil.chown(self._data, "postgres", "postgres")
        options = ["--username=sweeper", f"--pwfile={secret}", "--auth=scram-sha-256", "--no-sync"]
        self._run("initdb", "-D", str(self._data), *options)

    def __enter__(self) -> PostgresServer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        shutil.rmtree(self._folder)

    def start(self) -> None:
        """Starts it, and waits until it answers."""
        options = {"port": self.port, "listen_addresses": "127.0.0.1", "unix_socket_directories": "", "fsync": "off"}
        words = [word for key, value in options.items() for word in ("-c", f"{key}={value}")]
        command = [str(PROGRAMS[-1] / "postgres"), "-D", str(self._data), *words]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, **self._user)  # type: ignore[call-overload]
        self._run("pg_isready", "--host=127.0.0.1", f"--port={self.port}", "--quiet", attempts=100)

    def stop(self) -> None:
        """Stops it as `pg_ctl stop -m fast` does: what is connected is disconnected."""
        assert self._process
        self._process.send_signal(signal.SIGINT)
        self._process.wait(30)

    def url(self, database: str, password: str = PASSWORD) -> str:
        """Returns the address of a database, for SQLAlchemy."""
        return f"postgresql://sweeper:{password}@127.0.0.1:{self.port}/{database}"

    def create(self, database: str) -> str:
        """Creates a database; returns its address."""
        where = ["--host=127.0.0.1", f"--port={self.port}", "--username=sweeper"]
        self._run("createdb", *where, database, env={**os.environ, "PGPASSWORD": PASSWORD})
        return self.url(database)

    def _run(self, program: str, *words: str, attempts: int = 1, env: dict[str, str] | None = None) -> None:
        for _ in range(attempts):
            command = [str(PROGRAMS[-1] / program), *words]
            done = subprocess.run(command, capture_output=True, cwd="/", env=env, **self._user)  # type: ignore[call-overload]
            if done.returncode == 0:
                return
        raise RuntimeError(f"{program}: {done.stderr.decode()} {self._log.read_text() if self._log.exists() else ''}")
