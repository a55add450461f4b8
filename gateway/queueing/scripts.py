"""The queue's Lua scripts: what each may be asked. All begin with fair.lua, which has the invariants, and its like.

Time is the server's. Each script may be sent twice with no more effect than once.
"""

from __future__ import annotations

from importlib.resources import files

from gateway.queueing.ask import CLASSES
from gateway.store import keys
from gateway.store.scripts import Script

_PARTS = ("fair.lua", "turns.lua", "outlook.lua")
_COMMON = "".join(files("gateway.queueing").joinpath(part).read_text("utf-8") for part in _PARTS)


def names(line: str) -> tuple[str, ...]:
    """The keys of every script, in the order in which fair.lua takes them."""
    return (
        keys.leases(line),
        keys.grants(line),
        keys.line(line),
        keys.beats(line),
        keys.asks(line),
        *(keys.order(line, klass) for klass in CLASSES),
        keys.due(line),
        keys.service(line),
        keys.running(line),
        keys.queue(line),
        keys.speed(line),
    )


# KEYS 14 the reservation, if there has to be one. ARGV 2 request id  3 class  4 subject  5 tokens  6 KV tokens
# 7 model  8 its choices (MessagePack: pairs of backend and seconds)  9 its lane: their names, sorted, between commas
_ASKED = r"""
local id, class, subject = ARGV[2], tonumber(ARGV[3]), ARGV[4]
local own = {
  class = class, subject = subject, tokens = tonumber(ARGV[5]), kv = tonumber(ARGV[6]), model = ARGV[7],
  choices = ARGV[8], lane = ARGV[9],
}

local function answer(state, place, eta, backend)
  save()
  return { state, place, eta, now, next_expiry(), backend or '' }
end

if KEYS[14] and redis.call('EXISTS', KEYS[14]) == 0 then
  leave(id)
  give_up(id)
  move_up()
  return answer(-3, 0, -1)
end
"""

_ANSWERED = r"""
local known = read(ASKS, id)
if known and known.choices ~= own.choices then
  leave(id)
  known.choices, known.lane = own.choices, own.lane
  enter(id, known)
end
move_up()
if redis.call('ZSCORE', LEASES, id) then
  redis.call('ZADD', LEASES, now + config.lease, id)
  return answer(1, 0, -1, read(GRANTS, id).backend)
end

known = known and read(ASKS, id)
if known then redis.call('ZADD', BEATS, now + config.beat, id) end
if is_lost(own.lane) then return answer(-4, 0, -1) end
if known then
  local place = place_of(known, id)
  return answer(0, place, eta(place, known.lane))
end

local backend = best_of(own, wanted())
if backend then
  arrive(own)
  grant(id, own, backend, now + config.lease, false)
  return answer(1, 0, -1, backend)
end
local limits, _, total = config.classes[class], sums()
local mine, of_class = waiting(class .. subject), class_waiting(class)
if total >= config.line then return answer(-1, total, eta(1, own.lane)) end
if of_class >= limits.line then return answer(-1, of_class, eta(1, own.lane)) end
-- One subject alone never fills the line: what it has waiting may be as much as is still free for others.
if mine > 0 and mine >= config.line - total then return answer(-1, mine, eta(1, own.lane)) end
local place = place_of(own)
local wait = eta(place, own.lane)
local surely = math.ceil(wait * SURELY)
if surely > limits.wait then return answer(-2, place, surely) end
arrive(own)
line_up(id, own)
return answer(0, place, wait)
"""

# One that waits may ask again with other choices, and keeps its ticket.
# Answers {state, place, eta ms, now, ms to the next expiry of a lease, backend of the turn}; see Answer.
ACQUIRE = Script(_COMMON + _ASKED + _ANSWERED)

# Gives back a turn whose backend was lost, and asks for another: granted before all who wait where there is room, or
# else first of all who wait, past every bound of the line. Answers as ACQUIRE.
# KEYS and ARGV 2… as ACQUIRE  10 tokens served, weighted  11 what no other move has: a repetition is known by it
MOVE = Script(
    _COMMON
    + _ASKED
    + r"""
local before = read(GRANTS, id) or read(ASKS, id)
if not before or before.move ~= ARGV[11] then
  own.move, own.ahead = ARGV[11], true
  if before then own.class, own.asked = before.class, before.asked end
  arrive(own)
  leave(id)
  local held = give_up(id)
  if held then serve(held.class, held.subject, tonumber(ARGV[10]) - held.tokens, held.granted) end
  bury()
  local backend = best_of(own, {})
  if backend then grant(id, own, backend, now + config.lease, true) else line_up(id, own) end
end
"""
    + _ANSWERED
)

# Gives back a turn, or leaves the line: whichever the request had.
# ARGV 2 request id  3 tokens served, weighted  4 seconds a token, 0 = not measured
RELEASE = Script(
    _COMMON
    + r"""
local id, pace = ARGV[2], tonumber(ARGV[4])
if leave(id) then redis.call('PUBLISH', config.channel, '') end
local held = give_up(id)
if held then
  serve(held.class, held.subject, tonumber(ARGV[3]) - held.tokens, held.granted)
  if pace > 0 then learn_speed(held, pace) end
end
move_up()
save()
return now
"""
)

# Says that waiters live. ARGV 2 how many of them want to know their place  3… request ids, those first
# Answers {now, ms to the next expiry, then for each id: state (-1 = not in line, -4 = see State.LOST), place, eta ms}.
TEND = Script(
    _COMMON
    + r"""
for index = 3, #ARGV do redis.call('ZADD', BEATS, 'XX', now + config.beat, ARGV[index]) end
move_up()
local lost = {}
for lane in pairs(state.lanes) do lost[lane] = is_lost(lane) or nil end
local found = { now, next_expiry() }
for index = 3, #ARGV do
  local id = ARGV[index]
  local state, place, wait = -1, 0, -1
  if redis.call('ZSCORE', LEASES, id) then
    state = 1
  elseif redis.call('ZSCORE', BEATS, id) then
    local curious = index < 3 + tonumber(ARGV[2])
    local ask = (curious or next(lost)) and read(ASKS, id)
    state = ask and lost[ask.lane] and -4 or 0
    if curious and state == 0 then
      place = place_of(ask, id)
      wait = eta(place, ask.lane)
    end
  end
  for _, value in ipairs({ state, place, wait }) do found[#found + 1] = value end
end
save()
return found
"""
)

# KEYS 1 leases  2 speed; ARGV 1 lease ms  2… request ids. XX: a renewal that crosses a release must not bring the
# lease back. Answers what is known of each backend's speed: its name, and see Speed.
RENEW = Script(
    """
local clock = redis.call('TIME')
local expiry = clock[1] * 1000 + math.floor(clock[2] / 1000) + tonumber(ARGV[1])
for index = 2, #ARGV do redis.call('ZADD', KEYS[1], 'XX', expiry, ARGV[index]) end
return redis.call('HGETALL', KEYS[2])
"""
)

# What stands in the line, as administrators see it. Nobody moves, and nobody is taken to live who is only looked at.
# ARGV 2 how many at most, of those with a turn and of each class that waits  3 subject, empty = everybody's
# Answers {now, {backends in use, how many run there, KV tokens they hold}, {request ids with a turn, what each asked},
# {how many wait of each class}, {request ids that wait, what each asked}}.
SURVEY = Script(
    _COMMON
    + r"""
local most, subject = tonumber(ARGV[2]), ARGV[3]

local function asked(key, ids)
  local found = {}
  for _, id in ipairs(ids) do
    local packed = redis.call('HGET', key, id)
    if packed then
      found[#found + 1] = id
      found[#found + 1] = packed
    end
  end
  return found
end

local held, counts, ids = redis.call('ZRANGEBYSCORE', LEASES, '(' .. now, '+inf', 'LIMIT', 0, most), {}, {}
for class = 1, #ORDER do
  counts[class] = class_waiting(class)
  local from, to = '[' .. class, '(' .. class + 1
  if subject ~= '' then from, to = span(class .. subject) end
  for _, member in ipairs(redis.call('ZRANGE', LINE, from, to, 'BYLEX', 'LIMIT', 0, most)) do
    ids[#ids + 1] = string.sub(lane_of(member), string.find(lane_of(member), '\0', 1, true) + 17)
  end
end
local used = {}
for name, at in pairs(state.at) do
  for _, value in ipairs({ name, at.running, at.kv }) do used[#used + 1] = value end
end
save()
return { now, used, asked(GRANTS, held), counts, asked(ASKS, ids) }
"""
)

# ARGV 2… request ids that wait. Answers for each: place, eta ms; 0 and -1 for one that does not wait any more.
PLACES = Script(
    _COMMON
    + r"""
local found = {}
for index = 2, #ARGV do
  local ask = read(ASKS, ARGV[index])
  local place = ask and place_of(ask, ARGV[index]) or 0
  found[#found + 1] = place
  found[#found + 1] = ask and eta(place, ask.lane) or -1
end
save()
return found
"""
)

# Moves one who waits to another class, where it is the last of its subject. ARGV 2 request id  3 class
# Answers the class that it had; 0 for one that does not wait.
RECLASS = Script(
    _COMMON
    + r"""
local id, class = ARGV[2], tonumber(ARGV[3])
local ask = read(ASKS, id)
local before = ask and ask.class or 0
if ask and before ~= class then
  leave(id)
  ask.class = class
  arrive(ask)
  line_up(id, ask)
  redis.call('PUBLISH', config.channel, '')
end
save()
return before
"""
)

# KEYS 1 lines; ARGV 1 line  2 what is told of it
TELL = Script("redis.call('HSET', KEYS[1], ARGV[1], redis.call('TIME')[1] .. ' ' .. ARGV[2])")

# KEYS 1 requests that were ended  2 channel; ARGV 1 request id  2 ms for which that is remembered
CANCEL = Script(
    """
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
redis.call('ZADD', KEYS[1], now + tonumber(ARGV[2]), ARGV[1])
redis.call('PUBLISH', KEYS[2], ARGV[1])
"""
)
