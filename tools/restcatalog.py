"""Iceberg's own REST catalog for tests: the servlet of its project's tests, in a Java process.

    python -m tools.restcatalog install    fetch what it takes (30 MB, once for a user)

The project publishes no server, but its tests' servlet and adapter do what its specification says,
in front of any catalog; here of one in a SQLite database in memory. Nobody is asked who he is.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, Self

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JError

from firnline.errors import EnvironmentFaultError
from tools.gotools import cached
from tools.maven import ensure_jars, java, read_list, spark_jars
from tools.services import Service, end
from tools.system_packages import run_install

VERSION = "1.11.0"
"""Of Iceberg: 1.12.0 was published without the jar of its tests."""
JARS = Path(__file__).with_suffix(".sha256")
_STOP_SECONDS = 5.0
_HADOOP = ("hadoop-client-api-*.jar", "hadoop-client-runtime-*.jar")


def ensure() -> list[Path]:
    """Return the jars of the server, fetched on first use.

    Raises EnvironmentFaultError.
    """
    ours = ensure_jars(read_list(JARS), cached(f"restcatalog-{VERSION}"))
    return ours + [jar for name in _HADOOP for jar in spark_jars().glob(name)]


class RestCatalog(Service):
    """One running server on a free port of the loopback interface; a context manager.

    It ends with the process that started it.

    Args:
        folder: where tables lie that name no place.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = 0
        self._gateway: JavaGateway | None = None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def uri(self) -> str:
        """``http://127.0.0.1:port``."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> Self:
        """Start and wait until it answers.

        Raises EnvironmentFaultError: it cannot be fetched, or does not come up.
        """
        classpath = ":".join(map(str, ensure()))
        port, token, self._process = launch_gateway(
            classpath=classpath,
            java_path=java(),
            javaopts=["-Xmx512m", "-XX:TieredStopAtLevel=1"],
            die_on_exit=True,
            enable_auth=True,
            return_proc=True,
        )
        self._gateway = JavaGateway(
            gateway_parameters=GatewayParameters(port=port, auth_token=token, auto_convert=True)
        )
        try:
            self.port = _serve(self._gateway.jvm, self.folder)
        except Py4JError as error:
            raise EnvironmentFaultError(
                f"the REST catalog did not come up: {str(error).strip()[-500:]}",
                next_step="see that nothing else uses up the memory, and start it again",
            ) from error
        return self

    def stop(self) -> None:
        """End the process; what the catalog knew is forgotten."""
        if self._gateway is not None:
            self._gateway.shutdown()
            self._gateway = None
        if self._process is not None:
            end(self._process, _STOP_SECONDS)
            self._process = None


def _serve(jvm: Any, folder: Path) -> int:
    """Begin to serve; return the port."""
    apache, jetty = jvm.org.apache.iceberg, jvm.org.eclipse.jetty
    properties = {
        "catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
        "uri": "jdbc:sqlite::memory:",
        # Each connection to a database in memory is a database of its own.
        "clients": "1",
        "jdbc.schema-version": "V1",
        "warehouse": str(folder),
    }
    configuration = jvm.org.apache.hadoop.conf.Configuration()
    catalog = apache.CatalogUtil.buildIcebergCatalog("behind", properties, configuration)
    servlet = apache.rest.RESTCatalogServlet(apache.rest.RESTCatalogAdapter(catalog))
    context = jetty.ee10.servlet.ServletContextHandler()
    context.addServlet(jetty.ee10.servlet.ServletHolder(servlet), "/*")
    server = jetty.server.Server(jvm.java.net.InetSocketAddress("127.0.0.1", 0))
    server.setHandler(context)
    server.start()
    return int(server.getURI().getPort())


def main(arguments: list[str]) -> int:
    """Run ``install``; return the exit code."""
    return run_install("restcatalog", __doc__, arguments, ensure)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
