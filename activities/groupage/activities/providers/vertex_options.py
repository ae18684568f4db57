"""What Vertex needs beside credentials: a project, a location, and where the data of jobs lie.

Each option is read from the profile's `options`, else from the variable beside it. Credentials are Google's own
business (Application Default Credentials: GOOGLE_APPLICATION_CREDENTIALS, `gcloud auth application-default login`,
the metadata server); an endpoint on loopback gets none.

==============  ==============================  ==========================================================
project         GOOGLE_CLOUD_PROJECT            default: the project of the credentials
location        GOOGLE_CLOUD_LOCATION           `us-central1`, `europe-west4`, `us`, `eu`, `global`
data            GROUPAGE_VERTEX_DATA            `gs://bucket/prefix`, or `bq://project.dataset`
api_endpoint    GROUPAGE_VERTEX_API_ENDPOINT    instead of the location's own, for jobs and sync calls
==============  ==============================  ==========================================================

`base_url` of the profile is another name for api_endpoint. STORAGE_EMULATOR_HOST and BIGQUERY_EMULATOR_HOST are
read by Google's own clients.
"""

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from groupage.activities.providers.profile_options import given_options, wrong_settings
from groupage.activities.settings import ProviderSettings
from groupage.schemas.errors import ProviderError

_VARIABLES = {
    "project": "GOOGLE_CLOUD_PROJECT",
    "location": "GOOGLE_CLOUD_LOCATION",
    "data": "GROUPAGE_VERTEX_DATA",
    "api_endpoint": "GROUPAGE_VERTEX_API_ENDPOINT",
}
_LOCATION = re.compile(r"[a-z]+(-[a-z0-9]+)*")
_PROJECT = re.compile(r"[a-z0-9][a-z0-9.:-]{1,61}[a-z0-9]")
_GCS = re.compile(r"gs://([a-z0-9][-._a-z0-9]{1,220}[a-z0-9])(?:/(.*))?")
_BIGQUERY = re.compile(r"bq://([a-z0-9][a-z0-9.:-]{1,61}[a-z0-9])\.([A-Za-z0-9_]{1,1024})")
_PREFIX = re.compile(r"([-!_*'().a-z0-9A-Z]+/)*")
_MULTI_REGIONS = frozenset({"us", "eu"})


@dataclass(frozen=True, slots=True)
class VertexOptions:
    """Checked values; `data` may be empty where only the sync API is used."""

    project: str
    """Empty: the project of the credentials."""
    location: str
    data: str
    """`gs://bucket/prefix/` (with its last slash), `bq://project.dataset` or empty."""
    api_endpoint: str
    """With its scheme, without a slash at the end."""

    @property
    def loopback(self) -> bool:
        return is_loopback(self.api_endpoint)


def read_options(settings: ProviderSettings) -> VertexOptions:
    """Raises ProviderError(account) that names what is wrong: nothing would work before it is set right."""
    given = given_options("vertex", settings, _VARIABLES)
    if settings.api_key or settings.api_key_env:
        raise wrong("it takes no api_key: credentials are Google's Application Default Credentials")
    project, location = given["project"], given["location"]
    if project and not _PROJECT.fullmatch(project):
        raise wrong(f"project {project!r} is not a project's id")
    if location and not _LOCATION.fullmatch(location):
        raise wrong(f"location {location!r} is not a location, as us-central1 or global is one")
    endpoint = given["api_endpoint"] or (settings.base_url or "").strip()
    data = _data(given["data"])
    if location == "global" and data.startswith("bq://"):
        raise wrong(
            f"data {data}: jobs at the global endpoint cannot read BigQuery; set GOOGLE_CLOUD_LOCATION (or the option "
            "location) to the dataset's region, or GROUPAGE_VERTEX_DATA to gs://bucket/prefix"
        )
    return VertexOptions(project, location, data, _endpoint(endpoint, location))


def _data(text: str) -> str:
    if not text or _BIGQUERY.fullmatch(text):
        return text
    found = _GCS.fullmatch(text)
    if not found:
        raise wrong(f"data {text!r} is neither gs://bucket/prefix nor bq://project.dataset")
    prefix = found[2] or "groupage"
    if not prefix.endswith("/"):
        prefix += "/"
    if not _PREFIX.fullmatch(prefix):
        raise wrong(f"data {text!r}: use letters, digits and -!_*'(). between slashes")
    return f"gs://{found[1]}/{prefix}"


def _endpoint(text: str, location: str) -> str:
    if text:
        if "://" not in text:
            text = f"https://{text}"
        if not urlsplit(text).hostname or urlsplit(text).path.strip("/"):
            raise wrong(f"api_endpoint {text!r}: give a host, with http:// or https:// in front, and no path")
        return text.rstrip("/")
    if not location or location == "global":
        return "https://aiplatform.googleapis.com"
    if location in _MULTI_REGIONS:
        return f"https://aiplatform.{location}.rep.googleapis.com"
    return f"https://{location}-aiplatform.googleapis.com"


def is_loopback(url: str) -> bool:
    """Whether a server is on this machine: it is an emulator, and no credentials are sent to it."""
    host = urlsplit(url if "://" in url else f"//{url}").hostname or ""
    return host in {"localhost", "::1"} or host.startswith("127.")


def wrong(detail: str) -> ProviderError:
    """The error for settings that have to be put right by a person."""
    return wrong_settings("vertex", detail)
