"""Google Vertex AI: batch prediction jobs, generateContent and rawPredict, as JobServiceClient expects them.

Input is read from, and output written to, the Cloud Storage that STORAGE_EMULATOR_HOST names (a real one, or a server
that behaves like it), or BigQuery (bigquery.py).
"""

from groupage.emulator.calls import router
from groupage.emulator.core import Emulator
from groupage.emulator.gemini.errors import error_of
from groupage.emulator.vertex import jobs, sync
from groupage.emulator.vertex.accounts import authenticate
from starlette.routing import BaseRoute


def routes(core: Emulator) -> list[BaseRoute]:
    """Calls have the names that the same thing has at OpenAI, so that one fault plan fits both.

    Deleting a job is `files.delete`.
    """
    route = router(core, "/v1/projects/{project}/locations/{location}/", authenticate, error_of)
    answer, looks = sync.handler(core), jobs.Looks(core)
    model = "publishers/{publisher}/models/{model}"
    return [
        route("POST", "batchPredictionJobs", "batches.create", looks.create),
        route("GET", "batchPredictionJobs", "batches.list", jobs.list_),
        route("POST", "batchPredictionJobs/{job}:cancel", "batches.cancel", jobs.cancel),
        route("GET", "batchPredictionJobs/{job}", "batches.retrieve", looks.retrieve),
        route("DELETE", "batchPredictionJobs/{job}", "files.delete", jobs.delete),
        route("POST", model + ":generateContent", "sync", answer),
        route("POST", model + ":rawPredict", "sync", answer),
    ]
