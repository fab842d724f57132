"""Real systems for tests and first steps: brokers and databases on loopback, started and stopped by Penstock.

A service is one module of this folder, named `<name>_service.py`, with an object `SERVICE`; there is nothing else to
register. `penstock dev <name>` and `scripts/services.py <name>` find it by that name.
"""

from penstock.services.service import Launch, Service, ServiceProgram, cache_folder, load_service, service_names
from penstock.services.service_handle import RunningService, find_running, start_service

__all__ = [
    "Launch",
    "RunningService",
    "Service",
    "ServiceProgram",
    "cache_folder",
    "find_running",
    "load_service",
    "service_names",
    "start_service",
]
