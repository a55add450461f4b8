"""Browser sessions: seen and ended. Each that is ended leaves a line in the audit trail."""

from __future__ import annotations

from collections.abc import Sequence

from gateway.errors import NotFound
from gateway.identity.administration import members
from gateway.identity.administration.forms import Paging
from gateway.identity.administration.office import Office, page, some_of
from gateway.identity.administration.views import Deleted, Page, SessionShown, SignedOut, of_session
from gateway.identity.records import User
from gateway.identity.sessions import Session
from gateway.store.directory import Actor

_KIND = "session"


async def listed(office: Office, query: Paging) -> Page[SessionShown]:
    found, following = await some_of(office.sessions.list, lambda it: it.id, query.after, query.limit, None)
    return page(await _shown(office, found), following)


async def of_user(office: Office, user: str) -> Page[SessionShown]:
    """All of them: nobody has more than a few dozen."""
    await office.directory.find(User, user)
    return page(await _shown(office, await office.sessions.of_user(user)), None)


async def end(office: Office, actor: Actor, session_id: str) -> Deleted:
    session = await office.sessions.end(session_id)
    if session is None:
        raise NotFound(f"There is no session with the id {session_id[:64]!r}.", param="id")
    await office.directory.note(actor, "session.end", f"{_KIND}:{session_id}", session.public())
    return Deleted(id=session_id, object=_KIND)


async def sign_out(office: Office, actor: Actor, user: str) -> SignedOut:
    """End every session of somebody, who need not exist any more."""
    ended = await office.sessions.end_all(user)
    if ended:
        await office.directory.note(actor, "user.sign_out", f"{User.kind}:{user}", {"sessions": ended})
    return SignedOut(id=user, ended=ended)


async def _shown(office: Office, found: Sequence[Session]) -> list[SessionShown]:
    names = await members.names_of(office, User.kind, [session.user for session in found])
    return [of_session(session, names.get(session.user)) for session in found]
