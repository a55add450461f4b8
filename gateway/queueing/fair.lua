-- Whose turn it is, in one line before several backends. Invariants, held by every script:
--
-- * a request is in `leases` and `grants` (has a turn), or in `line`, `beats` and `asks` (waits), or in none of them;
-- * at no backend do leases exceed the capacity that the latest caller stated, unless it shrank, nor their KV tokens the
--   cache, unless one request alone does;
-- * who waits stands in a lane: the backends that it may go to. `order` of a class has each of its subjects that wait,
--   once for each lane, under the ticket of its first request there, by service received;
-- * free turns are given at once, by whichever script notices, and published: none is free at a backend while somebody
--   waits for it who would fit there and before whom nobody waits for it;
-- * service is charged as expected with the turn, and corrected once to what it was when the turn comes back.
--
-- Service fades by half every half-life. So that nobody has to be touched for that, what is stored is scaled up by
-- 2^(time since the epoch / half-life); powers of two lose no digit, and neither does moving the epoch.

local LEASES, GRANTS, LINE, BEATS, ASKS = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local ORDER, DUE, SERVICE, RUNNING = { KEYS[6], KEYS[7], KEYS[8] }, KEYS[9], KEYS[10], KEYS[11]
local STATE, SPEED = KEYS[12], KEYS[13]

local HIGHEST_EXPONENT = 400
local RATE_HALF_LIFE = 300000 -- ms during which the engine was busy
local FEWEST_TURNS = 3 -- below this nothing is known of how long a turn takes
local SURELY = 1.35 -- times what is expected: others come and go first, and no two turns take equally long
local SPEED_MEMORY = 0.998 -- of each older sample, with each new one

local config = cmsgpack.unpack(ARGV[1])
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

-- virtual: service that each waiting class has had by now, over its weight; pass: the same of one class.
-- level: what the subject of a class that had the last turn was served before it, scaled.
-- expected: tokens that wait in a class. busy, done: turns in use x ms and turns given back, fading. rescued: the last
-- turn went to one who had waited too long. lanes: lane > how many of each class wait in it. at: backend where somebody
-- runs > { how many, KV tokens they hold, turns in use x ms since then }.
-- One packed string: a hash of so many fields costs a third of the whole script.
local packed = redis.call('GET', STATE)
local state = setmetatable(packed and cmsgpack.unpack(packed) or {}, { __index = function() return 0 end })
if state.epoch == 0 then state.epoch, state.lanes, state.at = now, {}, {} end

local function save()
  redis.call('SET', STATE, cmsgpack.pack(state))
end

local function read(key, id)
  local packed = redis.call('HGET', key, id)
  return packed and cmsgpack.unpack(packed)
end

-- Backends and lanes ----------------------------------------------------------------------------------------------

local function running_at(backend)
  local at = state.at[backend]
  return at and at.running or 0
end

local function occupy(backend, kv)
  local at = state.at[backend] or { running = 0, kv = 0, area = 0 }
  at.running, at.kv = at.running + 1, at.kv + kv
  state.at[backend] = at
  return at
end

local function vacate(backend, kv)
  local at = state.at[backend]
  if not at then return end
  at.running, at.kv = at.running - 1, at.kv - kv
  if at.running <= 0 then state.at[backend] = nil end
  return at
end

local function count_in(lane, class, step)
  local counts = state.lanes[lane] or { 0, 0, 0 }
  counts[class] = counts[class] + step
  state.lanes[lane] = (counts[1] > 0 or counts[2] > 0 or counts[3] > 0) and counts or nil
end

-- How many of a class wait; given some lanes: in those.
local function class_waiting(class, lanes)
  local count = 0
  for lane, counts in pairs(state.lanes) do
    if not lanes or lanes[lane] then count = count + counts[class] end
  end
  return count
end

local split = {}
local function backends_of(lane)
  if not split[lane] then
    split[lane] = {}
    for name in string.gmatch(lane, '[^,]+') do table.insert(split[lane], name) end
  end
  return split[lane]
end

local function some_backend(lane, holds)
  for _, name in ipairs(backends_of(lane)) do
    if holds(name) then return true end
  end
  return false
end

-- The lanes with a backend of which something holds.
local function lanes_where(holds)
  local found = {}
  for lane in pairs(state.lanes) do found[lane] = some_backend(lane, holds) or nil end
  return found
end

local function wanted()
  local found = {}
  for lane in pairs(state.lanes) do
    for _, name in ipairs(backends_of(lane)) do found[name] = true end
  end
  return found
end

-- Nobody knows any more where one in this lane might go.
local function is_lost(lane)
  return not some_backend(lane, function(name) return config.backends[name] end)
end

-- Service ---------------------------------------------------------------------------------------------------------

local function scale(ms)
  return 2 ^ ((ms - state.epoch) / config.half_life)
end

local function service(key)
  return tonumber(redis.call('ZSCORE', SERVICE, key) or 0)
end

-- A member of the line: class, subject, NUL, lane, NUL, ticket of 16 characters, request id. All scores are 0: the
-- letters sort. A key here is the beginning of one: class and subject, or all of it up to the lane.
local function span(key)
  return '[' .. key .. '\0', '(' .. key .. '\1'
end

local function first_of(key)
  local from, to = span(key)
  local found = redis.call('ZRANGE', LINE, from, to, 'BYLEX', 'LIMIT', 0, 1)[1]
  if found then return string.sub(found, #key + 18), string.sub(found, #key + 2, #key + 17) end
end

local function serve(class, subject, tokens, at)
  local key = class .. subject
  local value = math.max(0, service(key) + tokens * scale(at))
  redis.call('ZADD', SERVICE, value, key)
  for lane in pairs(state.lanes) do
    local place = subject .. '\0' .. lane
    local _, ticket = first_of(class .. place)
    if ticket then redis.call('ZADD', ORDER[class], 'XX', value, ticket .. place) end
  end
  state['pass' .. class] = state['pass' .. class] + tokens / config.classes[class].weight
end

-- The line --------------------------------------------------------------------------------------------------------

local counted = {}
local function waiting(key)
  if not next(state.lanes) then return 0 end
  if not counted[key] then counted[key] = redis.call('ZLEXCOUNT', LINE, span(key)) end
  return counted[key]
end

-- Of a member of `order` or `due`, which end alike.
local function lane_of(member)
  return string.sub(member, string.find(member, '\0', 1, true) + 1)
end

-- Fields of `running`: how many turns a subject has, and under '+' what they were charged with.
local function tokens_running(key)
  return tonumber(redis.call('HGET', RUNNING, '+' .. key) or 0)
end

-- What a subject was really served: turns in use are charged as expected, and most end earlier.
local function settled(class, subject, value)
  return value - tokens_running(class .. subject) * scale(now)
end

local function is_away(key)
  return waiting(key) == 0 and redis.call('HEXISTS', RUNNING, key) == 0
end

-- What subject and class are taken to have had when this request comes. Those who were away have saved nothing up, and
-- do not go before all who were here: they come level with the least of those who wait, or else with the last
-- who had a turn. To read an answer and think is to be away as well: were what people had in the last minutes counted
-- against one another, those who ask a little oftener than others would wait much longer.
local function lifted(ask)
  local key = ask.class .. ask.subject
  local value, pass = service(key), state['pass' .. ask.class]
  local alone = class_waiting(ask.class) == 0
  if is_away(key) then
    local level = state['level' .. ask.class]
    if not alone then
      local least, score = unpack(redis.call('ZRANGE', ORDER[ask.class], 0, 0, 'WITHSCORES'))
      local subject = string.sub(least, 17, string.find(least, '\0', 1, true) - 1)
      level = settled(ask.class, subject, tonumber(score))
    end
    value = math.max(value, level)
  end
  if alone then pass = math.max(pass, state.virtual) end
  return value, pass
end

local function arrive(ask)
  local value, pass = lifted(ask)
  redis.call('ZADD', SERVICE, value, ask.class .. ask.subject)
  state['pass' .. ask.class] = pass
end

-- One that goes ahead has its ticket before all others of its subject, and is late from the beginning.
local function enter(id, ask)
  local place = ask.subject .. '\0' .. ask.lane
  local key = ask.class .. place
  local _, ticket = first_of(key)
  if not ticket or ask.ticket < ticket then
    if ticket then redis.call('ZREM', ORDER[ask.class], ticket .. place) end
    redis.call('ZADD', ORDER[ask.class], service(ask.class .. ask.subject), ask.ticket .. place)
  end
  if ask.ahead or not ticket then
    redis.call('ZADD', DUE, ask.ahead and 0 or now + config.classes[ask.class].starvation, key)
  end
  redis.call('ZADD', LINE, 0, key .. '\0' .. ask.ticket .. id)
  redis.call('HSET', ASKS, id, cmsgpack.pack(ask))
  redis.call('ZADD', BEATS, now + config.beat, id)
  state['expected' .. ask.class] = state['expected' .. ask.class] + ask.tokens
  count_in(ask.lane, ask.class, 1)
  counted = {}
end

local function line_up(id, ask)
  ask.asked = ask.asked or now
  state.ticket = state.ticket + 1
  ask.ticket = string.format(ask.ahead and '!%015d' or '%016d', state.ticket)
  enter(id, ask)
end

local function leave(id)
  local ask = read(ASKS, id)
  if not ask then return end
  local place = ask.subject .. '\0' .. ask.lane
  local key = ask.class .. place
  redis.call('HDEL', ASKS, id)
  redis.call('ZREM', BEATS, id)
  redis.call('ZREM', LINE, key .. '\0' .. ask.ticket .. id)
  state['expected' .. ask.class] = state['expected' .. ask.class] - ask.tokens
  count_in(ask.lane, ask.class, -1)
  if redis.call('ZREM', ORDER[ask.class], ask.ticket .. place) == 1 then
    local _, ticket = first_of(key)
    if ticket then
      redis.call('ZADD', ORDER[ask.class], service(ask.class .. ask.subject), ticket .. place)
    else
      redis.call('ZREM', DUE, key)
    end
  end
  counted = {}
  return ask
end

-- Every script begins here ----------------------------------------------------------------------------------------

local function each_score(key, visit)
  local found = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
  for index = 1, #found, 2 do visit(found[index], tonumber(found[index + 1])) end
end

local function move_epoch()
  local steps = math.floor((now - state.epoch) / config.half_life)
  local factor = 2 ^ -math.min(steps, 1000)
  state.epoch = state.epoch + steps * config.half_life
  for class, order in ipairs(ORDER) do
    each_score(order, function(member, score) redis.call('ZADD', order, score * factor, member) end)
    state['level' .. class] = state['level' .. class] * factor
  end
  each_score(SERVICE, function(key, score)
    if score * factor < 1 and waiting(key) == 0 then
      redis.call('ZREM', SERVICE, key)
    else
      redis.call('ZADD', SERVICE, score * factor, key)
    end
  end)
end

if now - state.epoch > HIGHEST_EXPONENT * config.half_life then move_epoch() end

local function sums()
  local running, waiting = 0, 0
  for _, at in pairs(state.at) do running = running + at.running end
  for _, counts in pairs(state.lanes) do waiting = waiting + counts[1] + counts[2] + counts[3] end
  return running, waiting
end

-- What is packed may be lost alone, where memory is short; then it is counted anew.
do
  local running, waiting = sums()
  if running ~= redis.call('ZCARD', LEASES) or waiting ~= redis.call('ZCARD', LINE) then
    state.at, state.lanes = {}, {}
    for _, id in ipairs(redis.call('ZRANGE', LEASES, 0, -1)) do
      local held = read(GRANTS, id)
      if held then occupy(held.backend, held.kv).area = held.area end
    end
    for _, id in ipairs(redis.call('ZRANGE', BEATS, 0, -1)) do
      local ask = read(ASKS, id)
      if ask then count_in(ask.lane, ask.class, 1) end
    end
    running = sums()
  end
  local passed = state.seen > 0 and now - state.seen or 0
  if running > 0 and passed > 0 then
    for _, at in pairs(state.at) do at.area = at.area + at.running * passed end
    local fade = 2 ^ (-passed / RATE_HALF_LIFE)
    state.busy = state.busy * fade + running * passed
    state.done = state.done * fade
  end
  state.seen = now
end
