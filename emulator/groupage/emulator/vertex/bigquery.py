"""BigQuery's REST API as google-cloud-bigquery uses it (BIGQUERY_EMULATOR_HOST): datasets, tables, rows, load jobs.

No queries. A project needs no creating; a dataset does.
"""

from functools import wraps
from typing import Any

from groupage.emulator.calls import Call, Endpoint, Handler, Reply, json_reply
from groupage.emulator.core import Emulator
from groupage.emulator.vertex.bigquery_errors import already_exists, error_of, not_found, refusal
from groupage.emulator.vertex.bigquery_loads import Loads
from groupage.emulator.vertex.bigquery_tables import NEVER, BadName, Record, Warehouse, new_table, read_rows
from groupage.emulator.vertex.bigquery_values import BadValue, checked_schema, shown
from starlette.requests import Request
from starlette.routing import BaseRoute, Route

PAGE_BYTES = 10_000_000
"""About so large a page of rows may become (BigQuery quotas, tabledata.list)."""
PAGE_ROWS = 100_000
TABLES_PAGE = 50
_ROOT = "/bigquery/v2/projects/{project}"
_TABLES = _ROOT + "/datasets/{dataset}/tables"


def authenticate(request: Request, core: Emulator) -> str:
    """Everybody shares one account, and nobody has to say who they are unless one key alone is allowed."""
    given = request.headers.get("authorization", "").removeprefix("Bearer ")
    if core.settings.api_key is not None and given != core.settings.api_key:
        raise refusal(401, "Request had invalid authentication credentials.")
    return "bigquery"


def _explained(handler: Handler) -> Handler:
    @wraps(handler)
    async def handle(call: Call) -> Reply:
        try:
            return await handler(call)
        except (BadName, BadValue) as error:
            raise refusal(400, str(error)) from error

    return handle


def routes(core: Emulator) -> list[BaseRoute]:
    """Calls have the names that the same thing has at OpenAI: a table is a file, its rows are its content."""
    api = BigQuery(core)

    def route(method: str, path: str, name: str, handler: Handler) -> Route:
        return Route(path, Endpoint(core, name, _explained(handler), authenticate, error_of), methods=[method])

    upload = "/upload" + _ROOT + "/jobs"
    return [
        route("POST", _ROOT + "/datasets", "datasets.create", api.insert_dataset),
        route("GET", _ROOT + "/datasets/{dataset}", "datasets.retrieve", api.get_dataset),
        route("DELETE", _ROOT + "/datasets/{dataset}", "datasets.delete", api.delete_dataset),
        route("POST", _TABLES, "files.create", api.insert_table),
        route("GET", _TABLES, "files.list", api.list_tables),
        route("GET", _TABLES + "/{table}", "files.retrieve", api.get_table),
        route("PATCH", _TABLES + "/{table}", "files.update", api.patch_table),
        route("DELETE", _TABLES + "/{table}", "files.delete", api.delete_table),
        route("GET", _TABLES + "/{table}/data", "files.content", api.list_rows),
        route("POST", upload, "uploads.create", api.loads.begin),
        route("PUT", upload, "uploads.part", api.loads.go_on),
        route("GET", _ROOT + "/jobs/{job}", "uploads.retrieve", api.loads.get),
    ]


class BigQuery:
    """The handlers."""

    def __init__(self, core: Emulator) -> None:
        self.warehouse = Warehouse(core.state.directory / "bigquery")
        self.loads = Loads(core, self.warehouse)

    # -- datasets ------------------------------------------------------------

    async def insert_dataset(self, call: Call) -> Reply:
        body, project = await call.json(), call.request.path_params["project"]
        name = str((body.get("datasetReference") or {}).get("datasetId") or "")
        if self.warehouse.dataset(project, name) is not None:
            raise already_exists(f"Dataset {project}:{name}")
        record = {
            "location": str(body.get("location") or "US"),
            "expiration_ms": _number(body.get("defaultTableExpirationMs")),
            "created_at": call.core.clock.now(),
        }
        self.warehouse.put_dataset(project, name, record)
        return json_reply(_dataset_shape(project, name, record))

    async def get_dataset(self, call: Call) -> Reply:
        project, name = call.request.path_params["project"], call.request.path_params["dataset"]
        return json_reply(_dataset_shape(project, name, self._dataset(project, name)))

    async def delete_dataset(self, call: Call) -> Reply:
        project, name = call.request.path_params["project"], call.request.path_params["dataset"]
        self._dataset(project, name)
        full = next(self.warehouse.tables(project, name, call.core.clock.now()), None) is not None
        if full and call.request.query_params.get("deleteContents") != "true":
            raise refusal(400, f"Dataset {project}:{name} is still in use", "resourceInUse")
        self.warehouse.drop_dataset(project, name)
        return Reply(204)

    def _dataset(self, project: str, name: str) -> Record:
        record = self.warehouse.dataset(project, name)
        if record is None:
            raise not_found(f"Dataset {project}:{name}")
        return record

    # -- tables --------------------------------------------------------------

    async def insert_table(self, call: Call) -> Reply:
        body, now = await call.json(), call.core.clock.now()
        project, dataset = call.request.path_params["project"], call.request.path_params["dataset"]
        home = self._dataset(project, dataset)
        name = str((body.get("tableReference") or {}).get("tableId") or "")
        if self.warehouse.table(project, dataset, name, now) is not None:
            raise already_exists(f"Table {project}:{dataset}.{name}")
        record = new_table(home, name, checked_schema((body.get("schema") or {}).get("fields")), now)
        record |= _settable(body, now)
        record["visible_from"] = now + call.lag_s
        self.warehouse.put_table(project, dataset, name, record)
        return json_reply(_table_shape(project, dataset, home, record))

    async def get_table(self, call: Call) -> Reply:
        project, dataset, home, record = self._table(call)
        return json_reply(_table_shape(project, dataset, home, record))

    async def patch_table(self, call: Call) -> Reply:
        """Expiration, labels and description."""
        project, dataset, home, record = self._table(call)
        record |= _settable(await call.json(), call.core.clock.now())
        self.warehouse.put_table(project, dataset, record["name"], record)
        return json_reply(_table_shape(project, dataset, home, record))

    async def delete_table(self, call: Call) -> Reply:
        project, dataset, _, record = self._table(call)
        self.warehouse.drop_table(project, dataset, record["name"])
        return Reply(204)

    async def list_tables(self, call: Call) -> Reply:
        """By name. A page's token is the name of the last table that was seen."""
        query, now = call.request.query_params, call.core.clock.now()
        project, dataset = call.request.path_params["project"], call.request.path_params["dataset"]
        self._dataset(project, dataset)
        most, after = _count(query.get("maxResults"), TABLES_PAGE), query.get("pageToken", "")
        found = [
            record
            for record in self.warehouse.tables(project, dataset, now)
            if record["name"] > after and now >= record["visible_from"]
        ]
        page: Record = {"kind": "bigquery#tableList", "totalItems": len(found)}
        page["tables"] = [_listed_shape(project, dataset, record) for record in found[:most]]
        return json_reply(page | ({"nextPageToken": found[most - 1]["name"]} if len(found) > most else {}))

    def _table(self, call: Call) -> tuple[str, str, Record, Record]:
        names, now = call.request.path_params, call.core.clock.now()
        project, dataset, name = names["project"], names["dataset"], names["table"]
        home = self._dataset(project, dataset)
        record = self.warehouse.table(project, dataset, name, now)
        if record is None or now < record["visible_from"]:
            raise not_found(f"Table {project}:{dataset}.{name}")
        return project, dataset, home, record

    # -- rows ----------------------------------------------------------------

    async def list_rows(self, call: Call) -> Reply:
        """tabledata.list. A page's token is how many rows have been seen, and of which generation of the table."""
        project, dataset, _, record = self._table(call)
        query = call.request.query_params
        start = _count(query.get("startIndex"), 0)
        if query.get("pageToken"):
            at, _, data = query["pageToken"].partition("-")
            if not at.isdigit() or data != str(record["data"]):
                raise refusal(400, "Invalid page token")
            start = int(at)
        most = min(_count(query.get("maxResults"), PAGE_ROWS), PAGE_ROWS)
        rows = read_rows(self.warehouse.table_folder(project, dataset, record["name"]), record, start, most, PAGE_BYTES)
        kinds, chosen = [field["type"] for field in record["schema"]], _chosen(query.get("selectedFields"), record)
        int64 = query.get("formatOptions.useInt64Timestamp", "").lower() == "true"
        text = b",".join(shown(row, kinds, chosen, int64_timestamps=int64) for row in rows)
        end = start + len(rows)
        token = b',"pageToken":"%d-%d"' % (end, record["data"]) if rows and end < record["rows"] else b""
        head = b'{"kind":"bigquery#tableDataList","totalRows":"%d"%b' % (record["rows"], token)
        return Reply(200, head + (b',"rows":[%b]}' % text if rows else b"}"))


def _settable(body: Record, now: float) -> Record:
    """Those parts of a table's record that the caller may set, where they are given. Raises ApiError 400."""
    given: Record = {}
    if "expirationTime" in body:
        at_ms = _number(body["expirationTime"])
        if at_ms is not None and at_ms / 1000 <= now:
            raise refusal(400, "Expiration time must be in the future.")
        given["expires_at"] = NEVER if at_ms is None else at_ms / 1000
    if "labels" in body:
        given["labels"] = body["labels"] or {}
    if "description" in body:
        given["description"] = body["description"] or ""
    return given


def _chosen(fields: str | None, record: Record) -> list[int] | None:
    if not fields:
        return None
    names = [field["name"] for field in record["schema"]]
    unknown = set(fields.split(",")) - set(names)
    if unknown:
        raise refusal(400, f"Invalid field name in selectedFields: {min(unknown)}")
    return [names.index(name) for name in fields.split(",")]


def _number(value: Any) -> int | None:
    """An int64 of the API: JSON has it as text."""
    if value in (None, "", 0, "0"):
        return None
    try:
        return int(value)
    except (TypeError, ValueError) as error:
        raise refusal(400, f"Invalid value {value!r}: an integer was expected.") from error


def _count(text: str | None, usual: int) -> int:
    if text is None:
        return usual
    if not text.isdigit():
        raise refusal(400, f"Invalid value {text!r}: a number was expected.")
    return int(text)


def _ms(seconds: float) -> str:
    return str(round(seconds * 1000))


def _dataset_shape(project: str, name: str, record: Record) -> Record:
    shape = {
        "kind": "bigquery#dataset",
        "id": f"{project}:{name}",
        "datasetReference": {"datasetId": name, "projectId": project},
        "location": record["location"],
        "creationTime": _ms(record["created_at"]),
    }
    lasts_ms = record["expiration_ms"]
    return shape | ({"defaultTableExpirationMs": str(lasts_ms)} if lasts_ms is not None else {})


def _listed_shape(project: str, dataset: str, record: Record) -> Record:
    name = record["name"]
    shape: Record = {
        "kind": "bigquery#table",
        "id": f"{project}:{dataset}.{name}",
        "tableReference": {"projectId": project, "datasetId": dataset, "tableId": name},
        "type": "TABLE",
        "creationTime": _ms(record["created_at"]),
    }
    if record["expires_at"] < NEVER:
        shape["expirationTime"] = _ms(record["expires_at"])
    return shape | ({"labels": record["labels"]} if record["labels"] else {})


def _table_shape(project: str, dataset: str, home: Record, record: Record) -> Record:
    more = {
        "schema": {"fields": record["schema"]},
        "numRows": str(record["rows"]),
        "numBytes": str(record["bytes"]),
        "location": home["location"],
    }
    return (
        _listed_shape(project, dataset, record)
        | more
        | ({"description": record["description"]} if record["description"] else {})
    )
