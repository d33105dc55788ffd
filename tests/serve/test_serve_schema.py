"""What /openapi.json promises, kept for questions that nobody thought of."""

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import positive_data_acceptance
from serving import running, toy

from regard.predictors.predictor import Predictor
from regard.serve.app import create
from regard.serve.limits import Limits

OPERATIONS = {
    "/api/models": "GET",
    "/api/models/{name}": "GET",
    "/api/models/toy/answer": "POST",
    "/api/principle": "GET",
    "/api/weigh": "POST",
    "/healthz": "GET",
}


@pytest.fixture(scope="module")
def api(tmp_path_factory):
    limits = Limits(seconds=600)
    app = create([Predictor.open(toy(tmp_path_factory.mktemp("runs") / "toy"))], limits=limits)
    with running(app, limits) as server:
        yield schemathesis.openapi.from_url(f"http://127.0.0.1:{server.port}/openapi.json")


def kept(operation, cases):
    """Ask what fits the schema of an operation and what does not, and compare each answer with what is promised."""
    modes = [GenerationMode.POSITIVE, *([GenerationMode.NEGATIVE] if operation.body else [])]
    careful = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
    asked = []

    @given(st.one_of([operation.as_strategy(generation_mode=mode) for mode in modes]))
    @settings(max_examples=cases, deadline=None, suppress_health_check=careful)
    def check(case):
        asked.append(case)
        reply = case.call_and_validate(excluded_checks=[positive_data_acceptance], timeout=600)
        # What fits the schema may yet have no answer: a sentence of too many tokens, vectors of different lengths.
        if case.meta.generation.mode is GenerationMode.POSITIVE and reply.status_code == 422:
            assert reply.json()["type"] == "urn:regard:unanswerable", reply.text

    check()
    return len(asked)


def test_every_operation_is_known(api):
    assert {found.ok().path: found.ok().method.upper() for found in api.get_all_operations()} == OPERATIONS


@pytest.mark.parametrize("path", OPERATIONS)
def test_questions_of_all_kinds(api, path):
    kept(api[path][OPERATIONS[path]], 100 if OPERATIONS[path] == "POST" else 10)


@pytest.mark.slow
@pytest.mark.parametrize("path", [path for path, method in OPERATIONS.items() if method == "POST"])
def test_many_more_questions(api, path):
    assert kept(api[path]["POST"], 1000) >= 1000
