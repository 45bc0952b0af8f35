"""The JSON interface keeps what its OpenAPI document promises, whatever is sent."""

import pytest
from hypothesis import HealthCheck, Phase, given, settings

PATIENT = settings(
    max_examples=8,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.generate],
)


def test_any_request_is_answered_as_documented(live):
    schemathesis = pytest.importorskip("schemathesis")
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi import checks

    promised = [
        not_a_server_error,
        checks.status_code_conformance,
        checks.content_type_conformance,
        checks.response_schema_conformance,
    ]
    schema = schemathesis.openapi.from_url(f"{live[0]}/api/openapi.json")
    asked = set()
    for found in schema.get_all_operations():
        operation = found.ok()

        @PATIENT
        @given(case=operation.as_strategy())
        def keeps_its_promise(case):
            case.call_and_validate(checks=promised)

        keeps_its_promise()
        asked.add(operation.label)
    assert len(asked) >= 20


def test_the_document_describes_every_route_of_the_interface(client):
    document = client.get("/api/openapi.json").json()
    assert document["openapi"].startswith("3.")
    for path in (
        "/api/search",
        "/api/papers/{slug}",
        "/api/papers/{slug}/runs",
        "/api/checks",
        "/api/jobs/{job}/events",
        "/api/imports",
        "/api/results/{run}/compared/{other}",
    ):
        assert path in document["paths"]
    for path, methods in document["paths"].items():
        assert path.startswith("/api/")
        for operation in methods.values():
            assert operation["summary"]
            assert operation["description"]


def test_a_wrong_value_is_named(client):
    answer = client.get("/api/search", params={"limit": 0})
    assert answer.status_code == 422
    assert answer.json()["detail"][0]["loc"] == ["query", "limit"]
    assert client.get("/api/nowhere").json() == {"detail": "There is no page at this address."}
