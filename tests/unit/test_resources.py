"""Templates, images and services are found in a checkout and in an installed wheel."""

from pathlib import Path

import pytest

from agent_sandbox import resources

CHECKOUT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def forgetful() -> None:
    resources.data_root.cache_clear()


def test_data_of_a_checkout_is_at_its_root() -> None:
    assert resources.data_root() == CHECKOUT
    assert all((CHECKOUT / name).is_dir() for name in ("templates", "images", "services"))


def test_data_of_a_wheel_is_beside_the_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "_data").mkdir()
    monkeypatch.setattr(resources, "PACKAGE", tmp_path)
    try:
        assert resources.data_root() == tmp_path / "_data"
    finally:
        resources.data_root.cache_clear()
