"""The settings of a command, and its logs by them."""

from groupage.client.config import load_settings
from groupage.workers.settings import Settings
from groupage.workers.telemetry import configure_logging


def command_settings() -> Settings:
    """Loads them, and sets logging up: what is set is heeded, else only warnings come between the command's own words."""
    configure_logging("warning", "console", tracebacks=False)
    settings = load_settings(Settings)
    named = settings.model_fields_set
    level = settings.log_level if "log_level" in named else "warning"
    shape = settings.log_format if "log_format" in named else "console"
    configure_logging(level, shape, tracebacks=level == "debug")
    return settings
