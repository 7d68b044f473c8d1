"""The way of a service into systemd or launchd, and out again."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from edgeserve.dataclass import dataclass
from edgeserve.errors import ConfigError, EdgeserveError
from edgeserve.models.folder import expanded
from edgeserve.service import launchd, unit
from edgeserve.service.plan import Plan, Whose

SERVICE, SOCKET = "edgeserve.service", "edgeserve.socket"
SYSTEMD = Path("/run/systemd/system")
"""There while systemd runs the machine (sd_booted(3))."""
SECONDS = 120.0

Run = Callable[[Sequence[str]], "subprocess.CompletedProcess[str]"]


def run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run a program of the system. Raises EdgeserveError where it is not there or hangs."""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)  # noqa: S603
    except (FileNotFoundError, subprocess.TimeoutExpired) as error:
        reason = "is not installed" if isinstance(error, FileNotFoundError) else f"took more than {SECONDS:g} s"
        raise EdgeserveError(f"the program {command[0]} {reason}") from None


def folder_of(whose: Whose, environ: Mapping[str, str], platform: str = sys.platform) -> Path:
    """The folder of the service's files."""
    home = expanded(environ.get("HOME") or "~", "HOME")
    if platform == "darwin":
        return Path("/Library/LaunchDaemons") if whose == "system" else home / "Library" / "LaunchAgents"
    if whose == "system":
        return Path("/etc/systemd/system")
    return Path(environ.get("XDG_CONFIG_HOME") or home / ".config") / "systemd" / "user"


def log_of(whose: Whose, environ: Mapping[str, str]) -> Path:
    """The file of log lines on macOS."""
    home = expanded(environ.get("HOME") or "~", "HOME")
    return Path("/var/log/edgeserve.log") if whose == "system" else home / "Library" / "Logs" / "edgeserve.log"


def texts(plan: Plan, log: Path, platform: str = sys.platform) -> dict[str, bytes]:
    """The service's files, by name. Raises ConfigError for settings that they cannot hold."""
    if platform == "darwin":
        if plan.listen:
            raise ConfigError("--socket needs systemd: launchd has no such start; leave it out")
        return {f"{launchd.LABEL}.plist": launchd.property_list(plan, log)}
    sockets = {SOCKET: unit.socket_unit(plan).encode()} if plan.listen else {}
    return {SERVICE: unit.service_unit(plan).encode(), **sockets}


@dataclass(frozen=True, slots=True)
class Manager:
    """systemd or launchd. ``run`` runs its programs; ``booted``: whether systemd runs this machine."""

    whose: Whose
    folder: Path
    run: Run = run
    platform: str = sys.platform
    booted: bool = SYSTEMD.is_dir()

    def require(self) -> None:
        """Raises EdgeserveError on a machine without systemd or launchd."""
        if self.platform != "darwin" and not self.booted:
            raise EdgeserveError("systemd does not run this machine; --print shows the unit for another one")

    def has_namespaces(self) -> bool:
        """Whether the manager of this user can hide files and drop capabilities. The check starts a
        program that ends at once.

        Some systems let only root make the namespace of users that this takes.
        """
        if self.platform == "darwin" or self.whose == "system" or not self.booted:
            return False
        limits = (f"--property={one}" for one in (*unit.OF_A_NAMESPACE, "PrivateDevices=yes"))
        return self.run(["systemd-run", "--user", "--quiet", "--wait", "--collect", *limits, "true"]).returncode == 0

    def write(self, files: Mapping[str, bytes]) -> Iterator[str]:
        """Write the files; yields each path. Raises ConfigError for a file that is another's, and OSError."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for name in files:
            self._require_own(self.folder / name)
        for path in self.installed():
            if path.name not in files:  # the socket of an earlier choice
                self._stop(path)
                path.unlink()
        for name, text in files.items():
            path = self.folder / name
            partial = path.with_name(f".{name}.{os.getpid()}.new")
            partial.write_bytes(text)
            partial.chmod(0o644)
            partial.replace(path)
            yield str(path)

    def installed(self) -> list[Path]:
        """The files of the service that are there."""
        names = (f"{launchd.LABEL}.plist",) if self.platform == "darwin" else (SOCKET, SERVICE)
        return [path for name in names if (path := self.folder / name).is_file()]

    def start(self, files: Mapping[str, bytes]) -> None:
        """Start the service now, and at each boot. Raises EdgeserveError with the words of the manager."""
        if self.platform == "darwin":
            self._ask("launchctl", "bootstrap", self._domain, str(self.folder / next(iter(files))))
            return
        self._systemctl("daemon-reload")
        self._systemctl("enable", "--now", SOCKET if SOCKET in files else SERVICE)

    def remove(self) -> Iterator[str]:
        """Stop the service and delete its files; yields each path. Raises EdgeserveError and OSError."""
        paths = self.installed()
        for path in paths:
            self._require_own(path)
        for path in paths:
            self._stop(path)
        for path in paths:
            path.unlink()
            yield str(path)
        if paths and self.platform != "darwin" and self.booted:
            self._systemctl("daemon-reload")

    def state(self) -> str:
        """The state in the manager's word, such as "active"; empty where the service is not installed."""
        paths = self.installed()
        if not paths:
            return ""
        if self.platform == "darwin":
            ended = self.run(["launchctl", "print", f"{self._domain}/{launchd.LABEL}"])
            return "active" if ended.returncode == 0 else "inactive"
        return self.run(self._command("is-active", SERVICE)).stdout.strip() or "unknown"

    def waits(self) -> bool:
        """Whether a socket is open whose first connection starts the service."""
        paths = [path for path in self.installed() if path.name == SOCKET]
        return bool(paths) and self.run(self._command("is-active", SOCKET)).stdout.strip() == "active"

    def _require_own(self, path: Path) -> None:
        """Raises ConfigError for a file that this command did not write."""
        if path.is_file() and path.suffix != ".plist" and not path.read_bytes().startswith(unit.HEAD.encode()):
            raise ConfigError(f"{path} was not written by `edgeserve service install`: move it away first")

    def _stop(self, path: Path) -> None:
        if self.platform == "darwin":
            self.run(["launchctl", "bootout", f"{self._domain}/{launchd.LABEL}"])  # it may not run
        elif self.booted:
            self._systemctl("disable", "--now", path.name)

    def _systemctl(self, *words: str) -> None:
        self._ask(*self._command(*words))

    def _command(self, *words: str) -> list[str]:
        return ["systemctl", *(["--user"] if self.whose == "user" else []), *words]

    def _ask(self, *command: str) -> None:
        ended = self.run(command)
        if ended.returncode:
            told = (ended.stderr or ended.stdout).strip()[-1000:] or f"exit code {ended.returncode}"
            raise EdgeserveError(f"{' '.join(command)}: {told}")

    @property
    def _domain(self) -> str:
        return "system" if self.whose == "system" else f"gui/{os.getuid()}"
