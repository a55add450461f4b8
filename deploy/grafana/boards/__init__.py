"""What the dashboards show: a module each, read from left to right."""

from __future__ import annotations

from deploy.grafana.boards.abuse import ABUSE
from deploy.grafana.boards.capacity import CAPACITY
from deploy.grafana.boards.engine import ENGINE
from deploy.grafana.boards.people import PEOPLE

BOARDS = (PEOPLE, CAPACITY, ENGINE, ABUSE)
