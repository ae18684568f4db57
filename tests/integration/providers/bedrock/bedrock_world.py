"""Jobs at Bedrock: emulated over a real S3, through the real boto3."""

from typing import Any

import boto3
from job_world import CHAT, JobWorld, chat_body  # noqa: F401  # the tests take CHAT from here

BUCKET = "groupage"
ROLE = "arn:aws:iam::123456789012:role/batch"
CLAUDE = "anthropic.claude-haiku-4-5-20251001-v1:0"
NOVA = "amazon.nova-lite-v1:0"
LLAMA = "meta.llama3-1-8b-instruct-v1:0"


def variables_of(base_url: str) -> dict[str, str]:
    root = base_url.removesuffix("/v1")
    return {
        "AWS_ENDPOINT_URL_BEDROCK": root,
        "AWS_ENDPOINT_URL_BEDROCK_RUNTIME": root,
        "GROUPAGE_BEDROCK_BUCKET": BUCKET,
        "GROUPAGE_BEDROCK_ROLE_ARN": ROLE,
        "GROUPAGE_BEDROCK_MIN_REQUESTS": "5",
    }


def body_of(n: int, model: str = CLAUDE) -> dict[str, Any]:
    return chat_body(n, model)


class BedrockWorld(JobWorld):
    name = "bedrock"
    model = CLAUDE

    def left(self) -> list[str]:
        """Objects, and objects of which a part was sent and not given up."""
        parts = boto3.client("s3").list_multipart_uploads(Bucket=BUCKET).get("Uploads") or ()
        return objects() + [part["Key"] for part in parts]

    def content(self, ref: str) -> bytes:
        return read_object(_key(ref))

    def put(self, ref: str, data: bytes) -> None:
        boto3.client("s3").put_object(Bucket=BUCKET, Key=_key(ref), Body=data)

    async def stranger(self) -> list[str]:
        source = f"s3://{BUCKET}/groupage/somebody-elses.jsonl"
        self.put(source, read_object(objects()[0]))
        theirs = {
            "jobName": "somebody-elses",
            "roleArn": ROLE,
            "modelId": CLAUDE,
            "inputDataConfig": {"s3InputDataConfig": {"s3Uri": source}},
            "outputDataConfig": {"s3OutputDataConfig": {"s3Uri": f"{source}-output/"}},
        }
        boto3.client("bedrock").create_model_invocation_job(**theirs)
        return ["groupage/somebody-elses.jsonl"]


def _key(ref: str) -> str:
    return ref.removeprefix(f"s3://{BUCKET}/")


def objects() -> list[str]:
    """Keys in the bucket."""
    page = boto3.client("s3").list_objects_v2(Bucket=BUCKET)
    return sorted(item["Key"] for item in page.get("Contents") or () if not item["Key"].endswith("/"))


def read_object(key: str) -> bytes:
    return boto3.client("s3").get_object(Bucket=BUCKET, Key=key)["Body"].read()
