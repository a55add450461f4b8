"""The queue's Lua scripts. Invariants, held by every script:

- a request id is in `leases` (has a turn), or in both `line` and `beats` (waits), or in none;
- leases never exceed the capacity that the latest caller stated, unless capacity shrank;
- free turns are given to the front of the line at once, by whichever script notices, and published.

Time is the server's. Each script may be sent twice with no more effect than once.
"""

from __future__ import annotations

from gateway.store.scripts import Script

# KEYS 1 leases  2 line  3 beats  4 ticket
# ARGV 1 request id  2 capacity  3 lease ms  4 heartbeat ms  5 channel; ACQUIRE alone: 6 longest line
_COMMON = """
local leases, line, beats = KEYS[1], KEYS[2], KEYS[3]
local id, capacity, lease, beat = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

local function bury_the_dead()
  redis.call('ZREMRANGEBYSCORE', leases, '-inf', now)
  for _, dead in ipairs(redis.call('ZRANGEBYSCORE', beats, '-inf', now)) do
    redis.call('ZREM', line, dead)
    redis.call('ZREM', beats, dead)
  end
end

local function give_free_turns()
  local free = capacity - redis.call('ZCARD', leases)
  while free > 0 do
    local first = redis.call('ZPOPMIN', line)[1]
    if not first then return end
    redis.call('ZREM', beats, first)
    -- Short until its owner confirms by asking: one that died while waiting must not keep a turn for a whole lease.
    redis.call('ZADD', leases, now + beat, first)
    redis.call('PUBLISH', ARGV[5], first)
    free = free - 1
  end
end
"""

# Answers {state, place, now}: 1 = your turn, 0 = wait at `place`, -1 = the line is full.
ACQUIRE = Script(
    _COMMON
    + """
bury_the_dead()
give_free_turns()
if redis.call('ZSCORE', leases, id) then
  redis.call('ZADD', leases, now + lease, id)
  return {1, 0, now}
end
local place = redis.call('ZRANK', line, id)
if not place then
  place = redis.call('ZCARD', line)
  if place == 0 and redis.call('ZCARD', leases) < capacity then
    redis.call('ZADD', leases, now + lease, id)
    return {1, 0, now}
  end
  if place >= tonumber(ARGV[6]) then return {-1, place, now} end
  redis.call('ZADD', line, redis.call('INCR', KEYS[4]), id)
end
redis.call('ZADD', beats, now + beat, id)
return {0, place + 1, now}
"""
)

# Gives back a turn, or leaves the line: whichever the request had.
RELEASE = Script(
    _COMMON
    + """
redis.call('ZREM', leases, id)
redis.call('ZREM', line, id)
redis.call('ZREM', beats, id)
bury_the_dead()
give_free_turns()
return now
"""
)

# KEYS 1 leases; ARGV 1 lease ms  2… request ids. XX: a renewal that crosses a release must not bring the lease back.
RENEW = Script(
    """
local clock = redis.call('TIME')
local expiry = clock[1] * 1000 + math.floor(clock[2] / 1000) + tonumber(ARGV[1])
for index = 2, #ARGV do redis.call('ZADD', KEYS[1], 'XX', expiry, ARGV[index]) end
return #ARGV - 1
"""
)
