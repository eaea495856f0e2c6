"""How the environment of a base image is filled: what it has stays, the rest is the lock's."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from tools import image
from tools.bootstrap import REPO
from tools.image import ImageError, Package, Pin, first, read_lock, read_wheel, unmet

WHEEL = Package("firnline", "1", ("duckdb>=2", "boto3>=1.35", "pyspark>=3.5; extra == 'spark'"))
PINS = {
    name: Pin(name, version, f"{name}=={version}")
    for name, version in {
        "apache-airflow": "3.3.2", "duckdb": "2.0.0", "boto3": "1.40", "botocore": "1.40",
        "pyspark": "4.3", "otlp": "9",
    }.items()
}  # fmt: skip


def there(**versions: str) -> dict[str, Package]:
    found = {name.replace("_", "-"): version for name, version in versions.items()}
    return {name: Package(name, version, ()) for name, version in found.items()}


def test_a_base_of_another_airflow_keeps_what_it_has_and_gets_what_the_wheel_needs() -> None:
    base = there(apache_airflow="3.1.8", boto3="1.36")
    assert first(base, PINS, WHEEL) == {"duckdb"}
    assert first(base, PINS, Package("firnline", "1", WHEEL.requires, ("spark",))) == {
        "duckdb",
        "pyspark",
    }


def test_what_the_base_has_in_a_version_that_the_wheel_does_not_take_is_replaced() -> None:
    assert first(there(apache_airflow="3.0.6", boto3="1.34", duckdb="2.1"), PINS, WHEEL) == {
        "boto3"
    }


def test_an_airflow_that_no_index_has_is_left_alone() -> None:
    base = there(apache_airflow="3.3.2+astro.4", boto3="1.36", duckdb="2.0")
    assert first(base, PINS, WHEEL) == set()


def test_a_base_of_the_locks_airflow_gets_the_whole_lock() -> None:
    assert first(there(apache_airflow="3.3.2"), PINS, WHEEL) == set(PINS)


def test_a_base_without_airflow_is_none() -> None:
    with pytest.raises(ImageError, match="the base has no apache-airflow; give an image"):
        first(there(boto3="1.36"), PINS, WHEEL)


def test_what_is_unmet_says_who_needs_it() -> None:
    assert unmet(there(duckdb="1.3"), [WHEEL]) == {
        "duckdb": "firnline 1 needs duckdb>=2 and there is 1.3",
        "boto3": "firnline 1 needs boto3>=1.35 and there is none",
    }


def test_pyspark_stands_in_for_its_client() -> None:
    assert unmet({}, [Package("provider", "6", ("pyspark-client>=4",))]) == {}


class Base:
    """An environment; a package that is installed brings what it requires to light."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, requires: dict[str, str], **has: str
    ) -> None:
        self.has, self.requires, self.steps = there(**has), requires, []  # type: ignore[var-annotated]
        monkeypatch.setattr(image, "installed", lambda: dict(self.has))
        monkeypatch.setattr(image, "_install", self.install)
        monkeypatch.setattr(image, "_pip", lambda *words: self.steps.append(words))

    def install(self, pins: list[Pin]) -> None:
        for pin in list(pins):
            self.steps.append(pin.name)
            needs = (self.requires[pin.name],) if pin.name in self.requires else ()
            self.has[pin.name] = Package(pin.name, pin.version, needs)


def lock(folder: Path) -> Path:
    text = "\n".join(f"{pin.name}=={pin.version} \\\n    --hash=sha256:0f" for pin in PINS.values())
    (folder / "lock").write_text(f"# of a test\n{text}\n")
    return folder / "lock"


def test_what_a_package_of_the_lock_needs_comes_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs = {"boto3": "botocore>=1.39"}
    base = Base(monkeypatch, needs, apache_airflow="3.1.8", boto3="1.30", botocore="1.30")
    image.install(lock(tmp_path), WHEEL)
    assert base.steps == ["boto3", "duckdb", "botocore"]


def test_the_client_of_pyspark_goes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = Base(monkeypatch, {}, apache_airflow="3.1.8", boto3="1.36", pyspark_client="4")
    image.install(lock(tmp_path), WHEEL)
    assert base.steps == [("uninstall", "-y", "pyspark-client"), "duckdb"]


def test_packages_that_do_not_fit_together_make_no_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = Base(monkeypatch, {"duckdb": "boto3<1"}, apache_airflow="3.1.8", boto3="1.36")
    base.has["old"] = Package("old", "1", ("gone>=2",))  # it did not fit before
    with pytest.raises(ImageError) as raised:
        image.install(lock(tmp_path), WHEEL)
    assert str(raised.value).startswith(
        "duckdb 2.0.0 needs boto3<1 and there is 1.40; take a newer"
    )


def test_the_lock_of_the_repository_reads() -> None:
    pins = read_lock((REPO / "requirements.txt").read_text(encoding="utf-8"))
    assert {"apache-airflow", "duckdb", "pyspark", "pytest"} <= pins.keys()
    assert all("--hash=sha256:" in pin.lines for pin in pins.values())


def test_a_wheel_says_what_it_requires(tmp_path: Path) -> None:
    wheel = tmp_path / "firnline-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        text = "Name: Firnline\nVersion: 1\nRequires-Dist: duckdb>=2\n\nA description: of it\n"
        archive.writestr("firnline-1.dist-info/METADATA", text)
    assert read_wheel(wheel, ["spark"]) == Package("firnline", "1", ("duckdb>=2",), ("spark",))
