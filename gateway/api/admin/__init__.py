"""The admin API: REST under /admin/v1. Reading needs the role auditor, changing anything the role admin."""

from __future__ import annotations

from gateway.api.admin import (
    activity,
    alerts,
    aliases,
    audit,
    backends,
    document,
    groups,
    keys,
    models,
    policies,
    queue,
    service_accounts,
    sessions,
    settings,
    usage,
    users,
    whoami,
)
from gateway.api.admin.operation import Operation

# All that exists: routes.py serves it, openapi.py describes it.
OPERATIONS: tuple[Operation, ...] = (
    *whoami.OPERATIONS,
    *users.OPERATIONS,
    *groups.OPERATIONS,
    *service_accounts.OPERATIONS,
    *keys.OPERATIONS,
    *sessions.OPERATIONS,
    *policies.OPERATIONS,
    *usage.OPERATIONS,
    *activity.OPERATIONS,
    *alerts.OPERATIONS,
    *queue.OPERATIONS,
    *models.OPERATIONS,
    *backends.OPERATIONS,
    *aliases.OPERATIONS,
    *settings.OPERATIONS,
    *audit.OPERATIONS,
)
DOCUMENT = document.operation(OPERATIONS)
