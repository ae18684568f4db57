"""AWS Bedrock's model invocation jobs, through boto3: input and output lie in a bucket of the user's own.

boto3 blocks, so each call is made in a thread, with one attempt and explicit timeouts. Everything of one
submission lies under `{prefix}{tag}/` in the bucket::

    groupage/gk3v9q2-4f7xk2m9ab3cd-r0-s7/input.jsonl
    groupage/gk3v9q2-4f7xk2m9ab3cd-r0-s7/output/{job id}/input.jsonl.out, manifest.json.out

The tag is the job's name and its client request token: Bedrock itself makes no second job for a token, and
jobs are looked for by name all the same, because nobody documents for how long it remembers one.
Settings: bedrock_options.py.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import orjson
from groupage.activities.answers_bedrock import read_line, read_output, usage_of_headers
from groupage.activities.answers_shared import exactly
from groupage.activities.providers.base import CLOCK_SKEW, Answer, RemoteObject, ResultFile, Submission, SyncCall
from groupage.activities.providers.batch_objects import furthest
from groupage.activities.providers.bedrock_bodies import invocation_type, render
from groupage.activities.providers.bedrock_clients import Clients
from groupage.activities.providers.bedrock_errors import create_failed, translate
from groupage.activities.providers.bedrock_jobs import (
    Counts,
    is_manifest,
    is_result,
    job_name,
    output_folder,
    read_counts,
    read_job,
    with_results,
)
from groupage.activities.providers.bedrock_objects import (
    delete_object,
    get_file,
    get_small,
    give_up_uploads,
    list_objects,
    list_uploads,
    put_file,
    size_of,
    split_uri,
)
from groupage.activities.providers.bedrock_options import read_options, wrong
from groupage.activities.providers.bedrock_runtime import Reply, bucket_s, converse, invoke
from groupage.activities.providers.call_errors import after_refused_cancel, not_of_shape, raise_create_failed
from groupage.activities.providers.compatibility import facts_of, limits_of_translated
from groupage.activities.providers.native_bodies import native_body
from groupage.activities.providers.profile_options import checked
from groupage.activities.providers.sync_replies import failed_call, timed_out
from groupage.activities.settings import ProviderSettings
from groupage.activities.threads import detached, in_thread
from groupage.schemas import BatchPhase, BatchStatus, ErrorClass, ProviderLimits
from groupage.schemas.catalog import ProviderFacts
from groupage.schemas.errors import ProviderError
from groupage.schemas.ids import decode_tag
from groupage.schemas.requests import NATIVE_ENDPOINTS

T = TypeVar("T")

PAGE = 1000
MAX_PAGES = 1000


class BedrockProvider:
    """One profile: credentials, region, bucket and role."""

    def __init__(self, name: str, settings: ProviderSettings) -> None:
        self.name = name
        self._settings = settings = checked(name, settings)
        self._options = read_options(settings)
        self._clients = Clients(settings, self._options)

    # ----- what a job may hold, and how a line is written -----

    def facts(self, model: str) -> ProviderFacts:
        return facts_of(self.name, self._settings, model)

    def limits(self, endpoint: str, model: str) -> ProviderLimits:
        native = endpoint in NATIVE_ENDPOINTS["bedrock"]
        least = self._options.minimum(model)
        limits = limits_of_translated(self.name, self._settings, model, native=native, min_requests=least)
        return limits.model_copy(update={"completion_window_s": self._options.hours(None) * 3600})

    def render(self, wire_id: str, endpoint: str, body: bytes) -> bytes:
        return render(wire_id, endpoint, body)

    # ----- submitting -----

    async def find(
        self,
        tag: str,
        *,
        since: datetime | None,
        not_ids: Sequence[str],
        files: Sequence[str] = (),  # noqa: ARG002  # a job always carries its name
    ) -> BatchStatus | None:
        # Names are searched by a part of them: s1 is found in s10 too.
        matches = [
            await self._with_results(job, status)
            async for job, status in self._jobs(tag, since)
            if status.tag == tag and status.batch_id not in not_ids
        ]
        return furthest(tag, matches, "jobs")

    async def upload(self, submission: Submission) -> list[str]:
        if not self._options.bucket:
            raise wrong("no bucket is known: set GROUPAGE_BEDROCK_BUCKET or the option bucket")
        uri = f"s3://{self._options.bucket}/{self._options.folder(submission.tag)}input.jsonl"
        what, path = f"upload of {uri}", submission.path
        if submission.look_since is not None:
            await self._s3(what, lambda s3: give_up_uploads(s3, uri))
            there = await self._s3(what, lambda s3: size_of(s3, uri))
            if there == path.stat().st_size:
                return [uri]
        await self._transfer(what, lambda s3, stop: put_file(s3, uri, path, stop))
        return [uri]

    async def create(self, submission: Submission, files: Sequence[str]) -> BatchStatus:
        options = self._options
        if not options.role_arn:
            raise wrong("no role is known: set GROUPAGE_BEDROCK_ROLE_ARN or the option role_arn")
        name = job_name(submission.tag, submission.not_ids)
        bucket, _ = split_uri(files[0])
        source: dict[str, Any] = {"s3Uri": files[0], "s3InputFormat": "JSONL"}
        target: dict[str, Any] = {"s3Uri": f"s3://{bucket}/{options.folder(submission.tag)}output/"}
        if options.bucket_owner:
            source["s3BucketOwner"] = target["s3BucketOwner"] = options.bucket_owner
        if options.kms_key:
            target["s3EncryptionKeyId"] = options.kms_key
        request = {
            "jobName": name,
            "clientRequestToken": name,
            "roleArn": options.role_arn,
            "modelId": submission.model,
            "modelInvocationType": invocation_type(submission.endpoint, submission.model),
            "inputDataConfig": {"s3InputDataConfig": source},
            "outputDataConfig": {"s3OutputDataConfig": target},
            # Of the first attempt: with another one a token that is sent again would be a conflict.
            "timeoutDurationInHours": options.hours(submission.first_left_s),
        }
        what = f"create of {submission.tag}"
        try:
            answer = await self._bedrock(
                what, lambda client: client.create_model_invocation_job(**request), self._settings.create_timeout_s
            )
            if not isinstance(answer.get("jobArn"), str):
                raise not_of_shape(what, "jobArn")
        except ProviderError as error:
            raise_create_failed(create_failed(error), error)
        return BatchStatus(
            batch_id=answer["jobArn"],
            tag=submission.tag,
            phase=BatchPhase.validating,
            raw_state="Submitted",
            input_files=list(files),
        )

    # ----- watching -----

    async def status(self, batch_id: str) -> BatchStatus:
        what = f"status of {batch_id}"
        job = await self._bedrock(what, lambda client: client.get_model_invocation_job(jobIdentifier=batch_id))
        return await self._with_results(job, self._read(job, what))

    async def cancel(self, batch_id: str) -> BatchStatus:
        what = f"stop of {batch_id}"
        try:
            await self._bedrock(what, lambda client: client.stop_model_invocation_job(jobIdentifier=batch_id))
        except ProviderError as error:
            return await after_refused_cancel(error, self.status, batch_id)
        return await self.status(batch_id)

    async def _with_results(self, job: dict[str, Any], status: BatchStatus) -> BatchStatus:
        """An ended job with what lies in its output folder."""
        folder = output_folder(job)
        if not status.phase.ended or not folder:
            return status

        def look(s3: Any) -> tuple[list[str], Counts | None]:
            files = [found.uri for found in list_objects(s3, folder)]
            manifest = next((ref for ref in files if is_manifest(ref)), None)
            return files, _manifest_counts(get_small(s3, manifest)) if manifest else None

        files, manifest = await self._s3(f"list of {folder}", look)
        return with_results(status, files, manifest)

    # ----- harvesting -----

    def result_files(self, status: BatchStatus) -> list[ResultFile]:
        results = [ResultFile("output", ref) for ref in status.output_files if is_result(ref)]
        manifests = [ResultFile("manifest", ref, lines=False) for ref in status.output_files if is_manifest(ref)]
        return results + manifests

    async def download(self, file: ResultFile, path: Path) -> int:
        return await self._transfer(f"download of {file.ref}", lambda s3, stop: get_file(s3, file.ref, path, stop))

    def read_line(self, line: bytes, endpoint: str) -> Answer:
        return read_line(line, endpoint)

    # ----- cleaning up -----

    async def delete(self, kind: str, ref: str) -> None:
        """A "file" is an object of ours, or an unfinished upload. A job is only a record: of a "batch" that has ended the outputs are deleted."""
        try:
            if kind == "file":
                await self._s3(f"delete of {ref}", lambda s3: delete_object(s3, ref))
            elif kind == "batch":
                await self._delete_outputs(ref)
        except ProviderError as error:
            if error.error_class is not ErrorClass.missing:
                raise

    async def _delete_outputs(self, batch_id: str) -> None:
        what = f"outputs of {batch_id}"
        job = await self._bedrock(what, lambda client: client.get_model_invocation_job(jobIdentifier=batch_id))
        status, folder = self._read(job, what), output_folder(job)
        if not status.phase.ended or not status.tag or not folder:
            return

        def clear(s3: Any) -> None:
            for found in list(list_objects(s3, folder)):
                delete_object(s3, found.uri)

        await self._s3(what, clear)

    async def list_ours(self, owner: str) -> AsyncIterator[RemoteObject]:
        live: set[str] = set()
        async for _, status in self._jobs(f"g{owner}-", None):
            if not status.tag.startswith(f"g{owner}-"):
                continue
            if not status.phase.ended:
                live.add(status.tag)
            yield RemoteObject("batch", status.batch_id, status.tag, status.phase.ended, status.created_at)
        if not self._options.bucket:
            return
        root = f"s3://{self._options.bucket}/{self._options.prefix}"
        ours = f"{root}g{owner}-"
        found = await self._s3(f"list of {root}", lambda s3: [*list_objects(s3, ours), *list_uploads(s3, ours)])
        for each in found:
            tag = each.uri.removeprefix(root).partition("/")[0]
            if decode_tag(tag) is not None:
                yield RemoteObject("file", each.uri, tag, tag not in live, each.modified_at)

    # ----- one by one -----

    async def complete(self, call: SyncCall) -> Answer:
        try:
            reply = await self._invoke(call)
        except TimeoutError:
            return timed_out(call)
        except ProviderError as error:
            found = ErrorClass.invalid if error.error_class is ErrorClass.missing else error.error_class
            return failed_call(call, error, found)

        def read(body: Any) -> Answer:
            return read_output(call.wire_id, body, reply.request_id)

        answer = exactly(read(reply.body), reply.raw, read)
        if answer.usage is None:
            answer.usage = usage_of_headers(reply.headers)
        return answer

    async def _invoke(self, call: SyncCall) -> Reply:
        model, target, body = native_body("bedrock", call.endpoint, call.body)

        def send(client: Any) -> Reply:
            return converse(client, model, body) if target == "/converse" else invoke(client, model, body)

        what, service = f"{target} for {call.wire_id}", "bedrock-runtime"
        async with asyncio.timeout(call.timeout_s):
            return await detached(lambda: self._sent(what, service, bucket_s(call.timeout_s), send), service)

    async def close(self) -> None:
        await asyncio.to_thread(self._clients.close)

    # ----- inside -----

    async def _jobs(self, name: str, since: datetime | None) -> AsyncIterator[tuple[dict[str, Any], BatchStatus]]:
        """All jobs with this part of a name that were submitted since then, newest first."""
        query: dict[str, Any] = {"nameContains": name, "maxResults": PAGE, "sortBy": "CreationTime"}
        query["sortOrder"] = "Descending"
        if since is not None:
            query["submitTimeAfter"] = since - CLOCK_SKEW
        for _ in range(MAX_PAGES):
            page = await self._bedrock("list of jobs", lambda client: client.list_model_invocation_jobs(**query))
            for job in page.get("invocationJobSummaries") or ():
                yield job, self._read(job, "list of jobs")
            token = page.get("nextToken")
            if not token or token == query.get("nextToken"):
                return
            query["nextToken"] = token

    def _read(self, job: dict[str, Any], what: str) -> BatchStatus:
        try:
            return read_job(job)
        except ValueError as error:
            raise not_of_shape(what, "jobArn") from error

    async def _bedrock(self, what: str, call: Callable[[Any], T], timeout_s: float | None = None) -> T:
        seconds = timeout_s or self._settings.request_timeout_s
        return await asyncio.to_thread(lambda: self._sent(what, "bedrock", seconds, call))

    async def _s3(self, what: str, call: Callable[[Any], T]) -> T:
        seconds = self._settings.request_timeout_s
        return await asyncio.to_thread(lambda: self._sent(what, "s3", seconds, call))

    async def _transfer(self, what: str, call: Callable[[Any, Any], T]) -> T:
        """Work that ends soon after its activity is cancelled; its thread's end is awaited."""
        seconds = self._settings.transfer_timeout_s
        return await in_thread(lambda stop: self._sent(what, "s3", seconds, lambda s3: call(s3, stop)))

    def _sent(self, what: str, service: str, timeout_s: float, call: Callable[[Any], T]) -> T:
        """One call in a thread; what boto3 raises becomes ours."""
        client: Any = None
        try:
            client = self._clients.get(service, timeout_s)
            return call(client)
        except ProviderError:
            raise
        except Exception as error:
            ours = translate(error, what)
            if ours is None:
                raise
            if ours.error_class is ErrorClass.account:
                self._clients.forget(client)
            raise ours from error


def _manifest_counts(raw: bytes) -> Counts | None:
    """None for a manifest that cannot be read: the lines decide anyway."""
    try:
        manifest = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return None
    return read_counts(manifest) if isinstance(manifest, dict) else None
