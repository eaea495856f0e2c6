from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import replace

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from firnline.airflow.page.cache import STALE_MS, Known
from firnline.airflow.page.fleet import Row
from firnline.airflow.page.metrics import FIGURES, Metrics, in_name, is_on, values
from firnline.airflow.versions import AIRFLOW_3_3_PLUS, gauges
from firnline.operations.health.run import look
from tests.support.histories import filled
from tests.support.programs import HUNG_SECONDS
from tests.support.world import World

if not AIRFLOW_3_3_PLUS:
    reason = "the senders of metrics that these tests look into are those of Airflow 3.3"
    pytest.skip(reason, allow_module_level=True)

from airflow._shared.observability.metrics import stats as facade
from airflow._shared.observability.metrics.otel_logger import SafeOtelLogger
from airflow.observability.metrics.statsd_logger import get_statsd_logger


class Statsd:
    """A StatsD server: what came over UDP."""

    def __init__(self) -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.socket.settimeout(HUNG_SECONDS)
        self.port: int = self.socket.getsockname()[1]

    def gauges(self, count: int) -> dict[str, float]:
        found = {}
        for _ in range(count):
            name, _, value = self.socket.recv(4096).decode().partition(":")
            number, _, kind = value.partition("|")
            assert kind == "g"
            found[name] = float(number)
        return found


@pytest.fixture
def statsd(monkeypatch: pytest.MonkeyPatch) -> Iterator[Statsd]:
    """Airflow's metrics go there."""
    server = Statsd()
    monkeypatch.setenv("AIRFLOW__METRICS__STATSD_HOST", "127.0.0.1")
    monkeypatch.setenv("AIRFLOW__METRICS__STATSD_PORT", str(server.port))
    monkeypatch.setenv("AIRFLOW__METRICS__STATSD_PREFIX", "airflow")
    monkeypatch.setattr(facade, "_backend", get_statsd_logger())
    yield server
    server.socket.close()


def row_of(world: World, name: str = "flights", problem: str = "") -> Row:
    health = look(world.table)
    known = Known(health=health, looked_ms=health.looked_ms, problem=problem)
    return Row(world.settings.model_copy(update={"name": name}), known)


def metrics(*, named: bool) -> Metrics:
    return Metrics(*gauges(), named=named)


@pytest.mark.long
def test_a_statsd_server_gets_each_figure_with_the_table_in_its_name(statsd: Statsd) -> None:
    world = filled(4)
    row = row_of(world)
    count = len(list(values(row, world.clock.now_ms())))
    metrics(named=True).send(row, world.clock.now_ms() + 5_000)
    found = statsd.gauges(count)
    assert found["airflow.firnline.parts.flights"] == 8
    assert found["airflow.firnline.merge_saves_requests.flights"] == 6
    assert found["airflow.firnline.readable.flights"] == 1
    assert found["airflow.firnline.age_seconds.flights"] == 5
    assert row.score == found["airflow.firnline.score.flights"]


def test_a_name_of_a_table_stays_one_level_of_the_metric(statsd: Statsd) -> None:
    world = filled(1)
    metrics(named=True).send(row_of(world, "eu.flights-2013"), world.clock.now_ms())
    assert "airflow.firnline.readable.eu__flights-2013" in statsd.gauges(1)


@pytest.mark.long
def test_statsd_of_influxdb_gets_the_table_as_a_tag(
    statsd: Statsd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__METRICS__STATSD_INFLUXDB_ENABLED", "True")
    monkeypatch.setattr(facade, "_backend", get_statsd_logger())
    world = filled(1)
    metrics(named=False).send(row_of(world, "eu.flights"), world.clock.now_ms())
    assert "airflow.firnline.readable,table=eu.flights" in statsd.gauges(1)


@pytest.mark.long
def test_open_telemetry_gets_the_table_as_an_attribute() -> None:
    reader = InMemoryMetricReader()
    logger = SafeOtelLogger(MeterProvider(metric_readers=[reader]))
    world = filled(4)
    gauge = Metrics(logger.gauge, str, named=False)
    for name in ("a", "b"):
        gauge.send(row_of(world, name), world.clock.now_ms())
    data = reader.get_metrics_data()
    assert data is not None
    found = {
        (metric.name, point.attributes["table"]): point.value  # type: ignore[union-attr]  # of gauges
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        for point in metric.data.data_points
        if point.attributes
    }
    assert found["airflow.firnline.parts", "a"] == found["airflow.firnline.parts", "b"] == 8
    assert {name for name, _ in found} >= {f"airflow.firnline.{name}" for name in FIGURES}


def test_a_table_that_cannot_be_read_says_so_and_the_age_of_its_figures() -> None:
    world = filled(4)
    row, now = row_of(world, problem="the host does not answer"), world.clock.now_ms() + 90_000
    found = dict(values(row, now))
    assert (found["readable"], found["score"], found["age_seconds"]) == (0, 0, 90)
    assert found["parts"] == 8
    never = Row(row.settings, Known(problem="gone"))
    assert dict(values(never, now)) == {"readable": 0, "score": 0}


def test_a_store_that_has_been_silent_for_a_minute_is_not_readable() -> None:
    row, began = row_of(filled(1)), 1_000
    silent = Row(row.settings, replace(row.known, asked_ms=began, under_way=True))
    assert dict(values(silent, began + STALE_MS))["readable"] == 1
    assert dict(values(silent, began + STALE_MS + 1))["readable"] == 0


@pytest.mark.parametrize(
    ("options", "on", "named"),
    [
        ("", False, False),
        ("statsd_on", True, True),
        ("statsd_on statsd_influxdb_enabled", True, False),
        ("statsd_datadog_enabled", True, False),
        ("otel_on", True, False),
    ],
    ids=str,
)
def test_the_table_is_in_the_name_only_where_tags_are_dropped(
    options: str, on: bool, named: bool
) -> None:
    is_set = options.split().__contains__
    assert (is_on(is_set), in_name(is_set)) == (on, named)
