"""AWS Bedrock: model invocation jobs and bedrock-runtime, as boto3 expects them.

Input is read from, and output written to, whatever S3 AWS_ENDPOINT_URL_S3 names: a real one.
"""

from groupage.emulator.bedrock import jobs, runtime
from groupage.emulator.bedrock.accounts import authenticate
from groupage.emulator.bedrock.errors import error_of
from groupage.emulator.calls import router
from groupage.emulator.core import Emulator
from starlette.routing import BaseRoute


def routes(core: Emulator) -> list[BaseRoute]:
    """Calls have the names that the same thing has at OpenAI, so that one fault plan fits both. Ids may be ARNs."""
    route = router(core, "", authenticate, error_of)
    sync, deliveries = runtime.Runtime(core), jobs.Deliveries()
    return [
        route("POST", "/model-invocation-job", "batches.create", jobs.create),
        route("GET", "/model-invocation-jobs", "batches.list", jobs.list_),
        route("POST", "/model-invocation-job/{job:path}/stop", "batches.cancel", jobs.stop),
        route("GET", "/model-invocation-job/{job:path}", "batches.retrieve", deliveries.retrieve),
        route("POST", "/model/{model:path}/invoke", "sync", sync.invoke),
        route("POST", "/model/{model:path}/converse", "sync", sync.converse),
    ]
