"""An archive of the classes that Spark loads, with which a JVM starts with less work (Java's class-data sharing).

The second start with a Java and a Spark records the archive, which its JVM writes when it ends; later starts use it. A
recording start is slower, so the first one does not record. A JVM ignores an archive that does not fit it, and writes
one under a name of its own: what is used is renamed into place when it is complete, and never changes.
"""

import hashlib
import os
import shutil
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil
from pyspark.find_spark_home import _find_spark_home

from penstock.model.ids import new_nonce

MAGIC = 0xF00BABA8.to_bytes(4, sys.byteorder)
"""The first bytes of an archive. A JVM writes them last."""
RECORDINGS = 2
"""So many starts try to record: a class path with folders, for one, cannot be archived."""
KEEP_S = 60 * 24 * 3600
"""Archives of another Java or Spark are removed when nobody has used them for so long."""
QUIET = "-Xlog:disable -Xlog:all=error:stderr"
"""A JVM that cannot use or write an archive says so on standard output, which belongs to the program."""
OWN_CHOICES = ("SharedArchiveFile", "ArchiveClassesAtExit", "-Xshare")
JAVA_SETTINGS = ("spark.driver.extraJavaOptions", "spark.driver.defaultJavaOptions")
PATH_SETTINGS = ("spark.driver.extraClassPath", "spark.jars", "spark.jars.packages")
JAVA_VARIABLES = ("SPARK_SUBMIT_OPTS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS")
PATH_VARIABLES = ("SPARK_DIST_CLASSPATH", "SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR")


def archive_options(settings: Mapping[str, str]) -> str:
    """Options for the JVM that starts next with these Spark settings; empty if it starts without an archive."""
    java = [settings.get(key, "") for key in JAVA_SETTINGS] + [os.environ.get(name, "") for name in JAVA_VARIABLES]
    if any(word in text for text in java for word in OWN_CHOICES):
        return ""  # the user has made a choice
    folder = cache_folder()
    if any(character.isspace() or character in "\"'\\" for character in str(folder)):
        return ""  # Spark would split the option
    try:
        return ClassArchive(folder, name_of(settings, java)).options()
    except OSError:
        return ""  # a cache that cannot be read or written is no reason to fail


def cache_folder() -> Path:
    """The user's cache folder for Penstock."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "penstock"


@dataclass(frozen=True)
class ClassArchive:
    """The archive of one Java, Spark and class path."""

    folder: Path
    name: str

    @property
    def file(self) -> Path:
        """The archive, if it exists."""
        return self.folder / f"{self.name}.jsa"

    def options(self) -> str:
        """Options for a start of a JVM, which this counts."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        owner = self.folder.stat()
        if owner.st_uid != os.getuid() or owner.st_mode & 0o022:
            return ""  # others could put classes there
        self._take_recordings()
        if self.file.exists():
            os.utime(self.file)
            return f"-XX:SharedArchiveFile={self.file} {QUIET}"
        if 1 < self._count_start() <= 1 + RECORDINGS:
            return f"-XX:ArchiveClassesAtExit={self.folder / self.name}.{new_nonce()}.new {QUIET}"
        return ""

    def _take_recordings(self) -> None:
        """Put a complete recording in place; remove what nobody needs."""
        for recording in self.folder.glob(f"{self.name}.*.new"):
            if is_complete(recording):
                with open(recording, "rb") as file:
                    os.fsync(file.fileno())
                os.replace(recording, self.file)
                self._remove_unused()

    def _remove_unused(self) -> None:
        oldest_s = time.time() - KEEP_S
        for path in self.folder.glob("classes-*"):
            if path.stat().st_mtime < oldest_s:
                path.unlink(missing_ok=True)

    def _count_start(self) -> int:
        """How many starts there have been without an archive, this one included."""
        counter = os.open(self.folder / f"{self.name}.starts", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(counter, b".")
            return os.fstat(counter).st_size
        finally:
            os.close(counter)


def is_complete(recording: Path) -> bool:
    """Whether a JVM has written the whole file. After a crash of the machine that is not certain."""
    with open(recording, "rb") as file:
        return file.read(len(MAGIC)) == MAGIC and os.fstat(file.fileno()).st_mtime > psutil.boot_time()


def name_of(settings: Mapping[str, str], java_options: list[str]) -> str:
    """A name that changes with everything an archive depends on."""
    home = os.environ.get("JAVA_HOME")
    java = os.path.realpath(os.path.join(home, "bin", "java") if home else shutil.which("java") or "java")
    spark = _find_spark_home()
    jars = sorted((jar.name, *_identity(jar.path)) for jar in os.scandir(os.path.join(spark, "jars")))
    paths = [settings.get(key, "") for key in PATH_SETTINGS] + [os.environ.get(name, "") for name in PATH_VARIABLES]
    parts = (java, _identity(java), spark, jars, paths, java_options)
    return f"classes-{hashlib.sha256(repr(parts).encode()).hexdigest()[:16]}"


def _identity(path: str) -> tuple[int, int]:
    """Size and time of change of a file."""
    found = os.stat(path)
    return found.st_size, found.st_mtime_ns
