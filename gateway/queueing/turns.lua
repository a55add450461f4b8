-- Turns: who gets one, and where. Follows fair.lua, which has the invariants.

local function has_turns(backend)
  local rules = config.backends[backend]
  return rules ~= nil and running_at(backend) < rules.capacity
end

local function has_room(ask, backend)
  if not has_turns(backend) then return false end
  local kv, at = config.backends[backend].kv, state.at[backend]
  return kv == 0 or not at or at.kv + ask.kv <= kv
end

-- Where a request is to go: of its choices with room that are not `taken` the one where its first token is soonest, of
-- equals the one with most of its room free, then any.
local function best_of(ask, taken)
  local choices = cmsgpack.unpack(ask.choices)
  local best, least, fullest
  for index = 1, #choices do
    local backend, seconds = unpack(choices[(clock[2] + index) % #choices + 1])
    if not taken[backend] and has_room(ask, backend) then
      local rules, running = config.backends[backend], running_at(backend)
      local cost, full = seconds + running * rules.each, running / rules.capacity
      if not best or cost < least or (cost == least and full < fullest) then
        best, least, fullest = backend, cost, full
      end
    end
  end
  return best
end

local function grant(id, ask, backend, expiry, rescued)
  local key = ask.class .. ask.subject
  -- One that goes first for having waited too long says nothing of how far its class has come.
  if not rescued then
    state.virtual = math.max(state.virtual, state['pass' .. ask.class])
    state['level' .. ask.class] = settled(ask.class, ask.subject, service(key))
  end
  state.rescued = rescued and 1 or 0
  local at = occupy(backend, ask.kv)
  ask.asked, ask.granted, ask.backend, ask.area = ask.asked or now, now, backend, at.area
  redis.call('ZADD', LEASES, expiry, id)
  redis.call('HSET', GRANTS, id, cmsgpack.pack(ask))
  redis.call('HINCRBY', RUNNING, key, 1)
  redis.call('HINCRBYFLOAT', RUNNING, '+' .. key, ask.tokens)
  if state.lanes[ask.lane] then
    redis.call('ZADD', DUE, 'XX', now + config.classes[ask.class].starvation, key .. '\0' .. ask.lane)
  end
  serve(ask.class, ask.subject, ask.tokens, now)
end

local function give_up(id)
  redis.call('ZREM', LEASES, id)
  local held = read(GRANTS, id)
  if not held then return end
  local key = held.class .. held.subject
  redis.call('HDEL', GRANTS, id)
  redis.call('HINCRBYFLOAT', RUNNING, '+' .. key, -held.tokens)
  if redis.call('HINCRBY', RUNNING, key, -1) <= 0 then redis.call('HDEL', RUNNING, key, '+' .. key) end
  local at = vacate(held.backend, held.kv)
  held.beside = at and at.area - held.area or 0
  state.done = state.done + 1
  return held
end

-- The first in an open lane. `range` reads so many members from there on; with one lane the first will do.
local function first_open(open, range)
  local from, count = 0, 1
  repeat
    local found = range(from, count)
    for _, member in ipairs(found) do
      if open[lane_of(member)] then return member end
    end
    from, count = from + count, count * 2
  until #found == 0
end

local function late_ones(from, count)
  return redis.call('ZRANGEBYSCORE', DUE, '-inf', now, 'LIMIT', from, count)
end

-- Who is next, of those in open lanes: a subject without a turn for too long, though not twice running, or else who had
-- least of the class that had least. Class, subject and lane.
local function next_place(open)
  if state.rescued == 0 then
    local late = first_open(open, late_ones)
    if late then return late, true end
  end
  local best
  for class = 1, #ORDER do
    local ahead = not best or state['pass' .. class] < state['pass' .. best]
    if ahead and class_waiting(class, open) > 0 then best = class end
  end
  local first = best and first_open(open, function(from, count)
    return redis.call('ZRANGE', ORDER[best], from, from + count - 1)
  end)
  if first then return best .. string.sub(first, 17), false end
end

-- Each look at somebody gives a turn or closes a lane.
local function give_free_turns()
  local taken = {}
  local function is_free(backend) return not taken[backend] and has_turns(backend) end
  while true do
    local open = lanes_where(is_free)
    if not next(open) then return end
    local key, rescued = next_place(open)
    if not key then return end
    local id = first_of(key)
    local ask = read(ASKS, id)
    local backend = best_of(ask, taken)
    if backend then
      leave(id)
      -- Short until its owner confirms by asking: one that died while waiting must not keep a turn for a whole lease.
      grant(id, ask, backend, now + config.beat, rescued)
      redis.call('PUBLISH', config.channel, id)
    else
      -- Nobody smaller goes first meanwhile: what is large would never find room.
      for _, name in ipairs(backends_of(ask.lane)) do taken[name] = true end
    end
  end
end

local function bury()
  for _, dead in ipairs(redis.call('ZRANGEBYSCORE', LEASES, '-inf', now)) do give_up(dead) end
  for _, dead in ipairs(redis.call('ZRANGEBYSCORE', BEATS, '-inf', now)) do leave(dead) end
end

local function move_up()
  bury()
  give_free_turns()
end
