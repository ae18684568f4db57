"""The fields beside the messages: read and checked here, written by the dialects."""

from typing import Any, NamedTuple

from groupage.schemas.portable.errors import Inexpressible

_NOTHING_SAID: dict[str, tuple[Any, ...]] = {
    "audio": (),
    "frequency_penalty": (0, 0.0),
    "function_call": (),
    "functions": (),
    "logit_bias": ({},),
    "logprobs": (False,),
    "max_completion_tokens": (),
    "max_tokens": (),
    "metadata": ({},),
    "modalities": (["text"],),
    "moderation": (),
    "n": (1,),
    "parallel_tool_calls": (True,),
    "prediction": (),
    "presence_penalty": (0, 0.0),
    "prompt_cache_key": (),
    "prompt_cache_options": (),
    "prompt_cache_retention": (),
    "reasoning_effort": (),
    "response_format": ({"type": "text"},),
    "safety_identifier": (),
    "seed": (),
    "service_tier": ("auto", "default"),
    "stop": ([],),
    "store": (False,),
    "stream": (False,),
    "stream_options": (),
    "temperature": (1, 1.0),
    "tool_choice": (),
    "tools": ([],),
    "top_logprobs": (0,),
    "top_p": (1, 1.0),
    "user": (),
    "verbosity": ("medium",),
    "web_search_options": (),
}
"""Every optional field of OpenAI's chat body, and the values that say no more than leaving it out (null always).

A route (service_tier) is chosen by the job, not by its requests: its defaults say nothing.
"""

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")


def says_nothing(name: str, value: Any) -> bool:
    """Whether a known field with this value means what its absence means."""
    known = _NOTHING_SAID.get(name)
    if known is None:
        return False
    return value is None or any(value == each and type(value) is type(each) for each in known)


def refuse_others(body: dict[str, Any], expressed: frozenset[str], target: str) -> None:
    """Raises Inexpressible for the first field that the dialect does not express."""
    for name, value in body.items():
        if name not in expressed and not says_nothing(name, value):
            known = name in _NOTHING_SAID
            hint = "give them as the request's labels: they come back with the result" if name == "metadata" else ""
            raise Inexpressible(
                name, f"{target} has no counterpart" if known else "is no field of a chat request", hint=hint
            )


def number(body: dict[str, Any], name: str, low: float, high: float) -> float | None:
    """A number of the body between two bounds, or None where it is not given."""
    value: float | None = body.get(name)
    if value is None:
        return None
    if type(value) not in {int, float}:
        raise Inexpressible(name, "is not a number")
    if not low <= value <= high:
        raise Inexpressible(name, f"{value} is not between {low:g} and {high:g}")
    return value


def integer(body: dict[str, Any], name: str, low: int, high: int) -> int | None:
    value = body.get(name)
    if value is None:
        return None
    if type(value) is not int:
        raise Inexpressible(name, "is not a whole number")
    if not low <= value <= high:
        raise Inexpressible(name, f"{value} is not between {low} and {high}")
    return value


def output_limit(body: dict[str, Any]) -> int | None:
    """max_completion_tokens, or its old name."""
    limit = integer(body, "max_completion_tokens", 1, 2**31 - 1)
    old = integer(body, "max_tokens", 1, 2**31 - 1)
    if limit is not None and old is not None and limit != old:
        raise Inexpressible("max_tokens", "differs from max_completion_tokens")
    return old if limit is None else limit


def stops(body: dict[str, Any], most: int) -> list[str]:
    value = body.get("stop")
    if value is None:
        return []
    found = [value] if type(value) is str else value
    if type(found) is not list or not all(type(each) is str and each for each in found):
        raise Inexpressible("stop", "is neither text nor a list of texts")
    if len(found) > most:
        raise Inexpressible("stop", f"{len(found)} stop sequences; {most} are taken")
    return found


def effort(body: dict[str, Any]) -> str | None:
    value = body.get("reasoning_effort")
    if value is not None and value not in EFFORTS:
        raise Inexpressible("reasoning_effort", f"{str(value)[:40]!r} is none of {', '.join(EFFORTS)}")
    return None if value is None else str(value)


class Format(NamedTuple):
    """What the answer must look like: JSON of a schema, or any JSON object (`schema` None)."""

    schema: dict[str, Any] | None
    name: str = ""
    description: str = ""

    def whole_schema(self) -> dict[str, Any] | None:
        """The schema with the format's name as its title, and the description, where it has none of its own.

        A title of the schema's own stands in place of the name: both only label it.
        """
        if self.schema is None:
            return None
        schema = {**self.schema}
        if self.name:
            schema.setdefault("title", self.name)
        if self.description and schema.setdefault("description", self.description) != self.description:
            raise Inexpressible("response_format.json_schema.description", "the schema has a description of its own")
        return schema


def response_format(body: dict[str, Any]) -> Format | None:
    value = body.get("response_format")
    if value is None or value == {"type": "text"}:
        return None
    if value == {"type": "json_object"}:
        return Format(None)
    if not isinstance(value, dict) or value.get("type") != "json_schema" or set(value) != {"type", "json_schema"}:
        raise Inexpressible("response_format", "is none of text, json_object, json_schema")
    given, at = value["json_schema"], "response_format.json_schema"
    if not isinstance(given, dict) or not isinstance(given.get("schema"), dict):
        raise Inexpressible(at, "has no schema")
    _known(given, {"name", "description", "schema", "strict"}, at)
    # Whether it must be kept to: all who take a schema keep to it, so there is nothing more to say.
    if given.get("strict") is not None and type(given["strict"]) is not bool:
        raise Inexpressible(f"{at}.strict", "is neither true nor false")
    name, description = given.get("name"), given.get("description")
    for label, text in (("name", name), ("description", description)):
        if text is not None and type(text) is not str:
            raise Inexpressible(f"{at}.{label}", "is not text")
    return Format(given["schema"], name or "", description or "")


def _known(value: dict[str, Any], known: set[str], at: str) -> None:
    for name, inner in value.items():
        if name not in known and inner is not None:
            raise Inexpressible(f"{at}.{name}", "has no counterpart")


class Tool(NamedTuple):
    name: str
    description: str
    parameters: dict[str, Any] | None
    strict: bool


class Tools(NamedTuple):
    """`choice` is auto, none, required, or one (exactly the tool `names`[0]), some (`names`, at least one of them)."""

    tools: list[Tool]
    choice: str
    names: list[str]
    parallel: bool


def read_tools(body: dict[str, Any]) -> Tools | None:
    """None where there are no tools; a choice among no tools must then be auto or none."""
    given, choice, parallel = body.get("tools"), body.get("tool_choice"), body.get("parallel_tool_calls")
    if parallel is not None and type(parallel) is not bool:
        raise Inexpressible("parallel_tool_calls", "is neither true nor false")
    if not given:
        if given is not None and given != []:
            raise Inexpressible("tools", "is not a list")
        if choice not in (None, "auto", "none"):
            raise Inexpressible("tool_choice", "there are no tools to choose from")
        return None
    if type(given) is not list:
        raise Inexpressible("tools", "is not a list")
    tools = [_tool(raw, f"tools[{number}]") for number, raw in enumerate(given)]
    kind, names = _choice(choice, {tool.name for tool in tools})
    return Tools(tools, kind, names, parallel is not False)


def _tool(raw: Any, at: str) -> Tool:
    if not isinstance(raw, dict):
        raise Inexpressible(at, "is not an object")
    if raw.get("type") != "function":
        raise Inexpressible(f"{at}.type" if "type" in raw else at, "only functions have a counterpart")
    _known(raw, {"type", "function"}, at)
    function = raw.get("function")
    if not isinstance(function, dict) or type(function.get("name")) is not str or not function["name"]:
        raise Inexpressible(at, "has no function with a name")
    _known(function, {"name", "description", "parameters", "strict"}, f"{at}.function")
    description, parameters, strict = (function.get(name) for name in ("description", "parameters", "strict"))
    if description is not None and type(description) is not str:
        raise Inexpressible(f"{at}.function.description", "is not text")
    if parameters is not None and type(parameters) is not dict:
        raise Inexpressible(f"{at}.function.parameters", "is not a schema")
    if strict is not None and type(strict) is not bool:
        raise Inexpressible(f"{at}.function.strict", "is neither true nor false")
    return Tool(function["name"], description or "", parameters, bool(strict))


def _choice(choice: Any, known: set[str]) -> tuple[str, list[str]]:
    if choice is None or choice == "auto":
        return "auto", []
    if isinstance(choice, str) and choice in {"none", "required"}:
        return choice, []
    if isinstance(choice, dict) and choice.get("type") == "function" and set(choice) == {"type", "function"}:
        name = choice["function"].get("name") if isinstance(choice["function"], dict) else None
        if isinstance(name, str) and name in known:
            return "one", [name]
        raise Inexpressible("tool_choice", "names none of the tools")
    if (
        isinstance(choice, dict)
        and choice.get("type") == "allowed_tools"
        and isinstance(choice.get("allowed_tools"), dict)
    ):
        allowed = choice["allowed_tools"]
        listed = allowed.get("tools")
        names = [_allowed_name(each) for each in listed] if isinstance(listed, list) else []
        if allowed.get("mode") == "required" and names and known.issuperset(names):
            return "some", names
    raise Inexpressible("tool_choice", "cannot be said of these tools")


def _allowed_name(entry: Any) -> str:
    function = entry.get("function") if isinstance(entry, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    if not isinstance(name, str):
        raise Inexpressible("tool_choice", "allows something that is no function")
    return name
