"""Processes: worker, settings, plugin, embedded stack, telemetry."""

from groupage.workers.embedded import embedded_server
from groupage.workers.plugin import GroupagePlugin, Role
from groupage.workers.settings import Settings
from groupage.workers.stack import Stack, WorkerPlan, run_with_stack

__all__ = ["GroupagePlugin", "Role", "Settings", "Stack", "WorkerPlan", "embedded_server", "run_with_stack"]
