"""What application code imports: light, no provider SDK, no worker."""

from groupage.client.config import ClientSettings
from groupage.client.connection import Connection
from groupage.client.groupage import Groupage
from groupage.client.job import Job

__all__ = ["ClientSettings", "Connection", "Groupage", "Job"]
