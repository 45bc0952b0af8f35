"""Every test has a data folder of its own, so that none reads the results or the catalog of another."""

import os

import pytest


@pytest.fixture(autouse=True)
def data_folder(tmp_path_factory, monkeypatch):
    folder = tmp_path_factory.mktemp("data")
    monkeypatch.setenv("WORKINGPAPERS_DATA", str(folder))
    monkeypatch.delenv("WORKINGPAPERS_DATABASE", raising=False)
    monkeypatch.delenv("WORKINGPAPERS_DEBUG", raising=False)
    return folder


@pytest.fixture(scope="session")
def postgres_address():
    address = os.environ.get("WORKINGPAPERS_TEST_DATABASE", "")
    if not address:
        pytest.skip("WORKINGPAPERS_TEST_DATABASE names no PostgreSQL server")
    return address
