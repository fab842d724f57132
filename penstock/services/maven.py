"""Jars by the name of their artifact, fetched with Maven and kept in the cache folder."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from penstock.errors import ServiceError
from penstock.services.service import find_program

FETCH_TIMEOUT_S = 900
GET_MAVEN = "install Maven (Debian: apt install maven), which fetches the jars"
POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>penstock</groupId><artifactId>jars</artifactId><version>1</version>
  <dependencies>
{dependencies}
  </dependencies>
</project>
"""
DEPENDENCY = """\
    <dependency>
      <groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>{exclusions}
    </dependency>"""
WITHOUT_TRANSITIVES = (
    "\n      <exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
)


def fetch_jars(artifacts: Sequence[str], folder: Path, *, transitive: bool = True) -> list[Path]:
    """Put the jars of `artifacts` (`group:artifact:version`) into `folder`; if `transitive`, with their dependencies.

    The folder appears when it is complete, so an interrupted fetch is repeated.
    """
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(prefix=f"{folder.name}-", dir=folder.parent))
        try:
            _copy_dependencies(artifacts, staging, transitive=transitive)
            os.replace(staging / "jars", folder)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
    return sorted(folder.glob("*.jar"))


def write_pom(artifacts: Sequence[str], *, transitive: bool) -> str:
    """The POM of a project that depends on the artifacts.

    >>> "<artifactId>kafka_2.13</artifactId>" in write_pom(["org.apache.kafka:kafka_2.13:4.1.0"], transitive=True)
    True
    """
    lines = []
    for artifact in artifacts:
        group, name, version = artifact.split(":")
        exclusions = "" if transitive else WITHOUT_TRANSITIVES
        lines.append(DEPENDENCY.format(group=group, artifact=name, version=version, exclusions=exclusions))
    return POM.format(dependencies="\n".join(lines))


def _copy_dependencies(artifacts: Sequence[str], staging: Path, *, transitive: bool) -> None:
    maven = find_program("mvn", GET_MAVEN)
    pom = staging / "pom.xml"
    pom.write_text(write_pom(artifacts, transitive=transitive), encoding="utf-8")
    command = [maven, "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", "-DincludeScope=runtime"]
    try:
        run = subprocess.run(
            [*command, f"-DoutputDirectory={staging / 'jars'}"],
            capture_output=True,
            text=True,
            timeout=FETCH_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ServiceError(f"Maven did not fetch {', '.join(artifacts)} within {FETCH_TIMEOUT_S} s") from None
    if run.returncode or not any((staging / "jars").glob("*.jar")):
        last = "\n".join((run.stdout + run.stderr).strip().splitlines()[:20])
        raise ServiceError(f"Maven could not fetch {', '.join(artifacts)}:\n{last}")
