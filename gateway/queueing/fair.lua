-- Whose turn it is, at one engine. Invariants, held by every script:
--
-- * a request is in `leases` and `grants` (has a turn), or in `line`, `beats` and `asks` (waits), or in none of them;
-- * leases never exceed the capacity that the latest caller stated, unless it shrank, nor their KV tokens the cache,
--   unless one request alone does;
-- * `order` of a class has each of its subjects that wait, under the ticket of its first request, by service received;
-- * free turns are given at once, by whichever script notices, and published;
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
-- expected: tokens that wait in a class. kv: held in the engine. area: turns in use x ms, ever. busy, done: turns in
-- use x ms and turns given back, fading. rescued: the last turn went to one who had waited too long.
-- One packed string: a hash of so many fields costs a third of the whole script.
local packed = redis.call('GET', STATE)
local state = setmetatable(packed and cmsgpack.unpack(packed) or {}, { __index = function() return 0 end })

local function save()
  redis.call('SET', STATE, cmsgpack.pack(state))
end

local function read(key, id)
  local packed = redis.call('HGET', key, id)
  return packed and cmsgpack.unpack(packed)
end

-- Service ---------------------------------------------------------------------------------------------------------

local function scale(ms)
  return 2 ^ ((ms - state.epoch) / config.half_life)
end

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
    if score * factor < 1 and not redis.call('ZSCORE', DUE, key) then
      redis.call('ZREM', SERVICE, key)
    else
      redis.call('ZADD', SERVICE, score * factor, key)
    end
  end)
end

local function service(key)
  return tonumber(redis.call('ZSCORE', SERVICE, key) or 0)
end

-- A member of the line: class, subject, NUL, ticket of 16 digits, request id. All scores are 0: the letters sort.
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
  local _, ticket = first_of(key)
  if ticket then redis.call('ZADD', ORDER[class], 'XX', value, ticket .. subject) end
  state['pass' .. class] = state['pass' .. class] + tokens / config.classes[class].weight
end

-- The line --------------------------------------------------------------------------------------------------------

local counted = {}
local function waiting(key)
  if not counted[key] then counted[key] = redis.call('ZLEXCOUNT', LINE, span(key)) end
  return counted[key]
end

local function class_waiting(class)
  return redis.call('ZLEXCOUNT', LINE, '[' .. class, '(' .. class + 1)
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
  if is_away(key) then
    local least, score = unpack(redis.call('ZRANGE', ORDER[ask.class], 0, 0, 'WITHSCORES'))
    local level = least and settled(ask.class, string.sub(least, 17), tonumber(score)) or state['level' .. ask.class]
    value = math.max(value, level)
  end
  if redis.call('ZCARD', ORDER[ask.class]) == 0 then pass = math.max(pass, state.virtual) end
  return value, pass
end

local function arrive(ask)
  local value, pass = lifted(ask)
  redis.call('ZADD', SERVICE, value, ask.class .. ask.subject)
  state['pass' .. ask.class] = pass
end

local function join(id, ask)
  arrive(ask)
  local key = ask.class .. ask.subject
  ask.asked = ask.asked or now
  state.ticket = state.ticket + 1
  ask.ticket = string.format('%016d', state.ticket)
  state['expected' .. ask.class] = state['expected' .. ask.class] + ask.tokens
  if waiting(key) == 0 then
    redis.call('ZADD', ORDER[ask.class], service(key), ask.ticket .. ask.subject)
    redis.call('ZADD', DUE, now + config.classes[ask.class].starvation, key)
  end
  redis.call('ZADD', LINE, 0, key .. '\0' .. ask.ticket .. id)
  redis.call('HSET', ASKS, id, cmsgpack.pack(ask))
  redis.call('ZADD', BEATS, now + config.beat, id)
  counted = {}
end

local function leave(id)
  local ask = read(ASKS, id)
  if not ask then return end
  local key = ask.class .. ask.subject
  redis.call('HDEL', ASKS, id)
  redis.call('ZREM', BEATS, id)
  redis.call('ZREM', LINE, key .. '\0' .. ask.ticket .. id)
  state['expected' .. ask.class] = state['expected' .. ask.class] - ask.tokens
  if redis.call('ZREM', ORDER[ask.class], ask.ticket .. ask.subject) == 1 then
    local _, ticket = first_of(key)
    if ticket then
      redis.call('ZADD', ORDER[ask.class], service(key), ticket .. ask.subject)
    else
      redis.call('ZREM', DUE, key)
    end
  end
  counted = {}
  return ask
end

-- Turns -----------------------------------------------------------------------------------------------------------

local function has_room(ask)
  local running = redis.call('ZCARD', LEASES)
  if running >= config.capacity then return false end
  return config.kv == 0 or running == 0 or state.kv + ask.kv <= config.kv
end

local function grant(id, ask, expiry, rescued)
  local key = ask.class .. ask.subject
  -- One that goes first for having waited too long says nothing of how far its class has come.
  if not rescued then
    state.virtual = math.max(state.virtual, state['pass' .. ask.class])
    state['level' .. ask.class] = settled(ask.class, ask.subject, service(key))
  end
  state.rescued = rescued and 1 or 0
  ask.asked, ask.granted, ask.area = ask.asked or now, now, state.area
  redis.call('ZADD', LEASES, expiry, id)
  redis.call('HSET', GRANTS, id, cmsgpack.pack(ask))
  redis.call('HINCRBY', RUNNING, key, 1)
  redis.call('HINCRBYFLOAT', RUNNING, '+' .. key, ask.tokens)
  redis.call('ZADD', DUE, 'XX', now + config.classes[ask.class].starvation, key)
  state.kv = state.kv + ask.kv
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
  state.kv = state.kv - held.kv
  state.done = state.done + 1
  return held
end

-- Who is next: a subject without a turn for too long, though not twice running, or else who had least of the class
-- that had least.
local function next_subject()
  if state.rescued == 0 then
    local late = redis.call('ZRANGEBYSCORE', DUE, '-inf', now, 'LIMIT', 0, 1)[1]
    if late then return late, true end
  end
  local best
  for class = 1, #ORDER do
    local ahead = not best or state['pass' .. class] < state['pass' .. best]
    if ahead and redis.call('EXISTS', ORDER[class]) == 1 then best = class end
  end
  if best then return best .. string.sub(redis.call('ZRANGE', ORDER[best], 0, 0)[1], 17), false end
end

local function give_free_turns()
  if redis.call('EXISTS', LINE) == 0 then return end
  while redis.call('ZCARD', LEASES) < config.capacity do
    local key, rescued = next_subject()
    if not key then return end
    local id = first_of(key)
    local ask = read(ASKS, id)
    -- Nobody smaller goes first meanwhile: what is large would never find room.
    if not has_room(ask) then return end
    leave(id)
    -- Short until its owner confirms by asking: one that died while waiting must not keep a turn for a whole lease.
    grant(id, ask, now + config.beat, rescued)
    redis.call('PUBLISH', config.channel, id)
  end
end

local function move_up()
  for _, dead in ipairs(redis.call('ZRANGEBYSCORE', LEASES, '-inf', now)) do give_up(dead) end
  for _, dead in ipairs(redis.call('ZRANGEBYSCORE', BEATS, '-inf', now)) do leave(dead) end
  give_free_turns()
end

-- What is to be expected ------------------------------------------------------------------------------------------

-- How many turns somebody takes before another comes level who is `gap` turns ahead; `first`: of equals it goes first.
local function turns_before(gap, first)
  gap = math.floor(gap * 1e6 + 0.5) / 1e6
  if gap < 0 then return 0 end
  return first and math.floor(gap) + 1 or math.ceil(gap)
end

local function mean_of(class, otherwise)
  local count = class_waiting(class)
  return count > 0 and math.max(1, state['expected' .. class] / count) or otherwise, count
end

-- Where a request stands among all that wait, if nobody else came and all took what they are expected to. Without an
-- id: where it would stand if it joined.
local function place_of(ask, id)
  local class, key = ask.class, ask.class .. ask.subject
  local value, pass = lifted(ask)
  local before = waiting(key)
  if id then before = redis.call('ZLEXCOUNT', LINE, (span(key)), '(' .. key .. '\0' .. ask.ticket) end
  local _, first = first_of(key)
  local mean = mean_of(class, ask.tokens)
  local unit = mean * scale(now)
  local level = value + before * unit
  local found = redis.call('ZRANGEBYSCORE', ORDER[class], '-inf', level, 'WITHSCORES')
  for index = 1, #found, 2 do
    local ticket, other = string.sub(found[index], 1, 16), string.sub(found[index], 17)
    if other ~= ask.subject then
      local turns = turns_before((level - tonumber(found[index + 1])) / unit, not first or ticket < first)
      before = before + math.min(waiting(class .. other), turns)
    end
  end
  local place, virtual = before + 1, pass + before * mean / config.classes[class].weight
  for other = 1, #ORDER do
    local theirs, count = mean_of(other, 1)
    if other ~= class and count > 0 then
      local gap = (virtual - state['pass' .. other]) * config.classes[other].weight / theirs
      place = place + math.min(count, turns_before(gap, other < class))
    end
  end
  return place
end

-- By how fast turns have been coming back while they were in use: an idle night does not make an engine slow.
local function eta(place)
  if state.done < FEWEST_TURNS then return -1 end
  local running = math.max(1, redis.call('ZCARD', LEASES))
  return math.ceil(place * state.busy / state.done / running)
end

local function next_expiry()
  local first = redis.call('ZRANGE', LEASES, 0, 0, 'WITHSCORES')[2]
  return first and math.max(0, tonumber(first) - now) or -1
end

local function learn_speed(held, pace)
  local running = math.max(1, (state.area - held.area) / math.max(1, now - held.granted))
  local names = { 'n', 'x', 'y', 'xx', 'xy', 'yy' }
  local sample = { 1, running, pace, running * running, running * pace, pace * pace }
  local before, after = redis.call('HMGET', SPEED, unpack(names)), {}
  for index, name in ipairs(names) do
    after[#after + 1] = name
    after[#after + 1] = tonumber(before[index] or 0) * SPEED_MEMORY + sample[index]
  end
  redis.call('HSET', SPEED, unpack(after))
end

-- Every script begins here ----------------------------------------------------------------------------------------

if state.epoch == 0 then state.epoch = now end
if now - state.epoch > HIGHEST_EXPONENT * config.half_life then move_epoch() end
do
  local running, passed = redis.call('ZCARD', LEASES), now - state.seen
  if running == 0 then
    state.kv = 0
  elseif state.seen > 0 and passed > 0 then
    local fade = 2 ^ (-passed / RATE_HALF_LIFE)
    state.area = state.area + running * passed
    state.busy = state.busy * fade + running * passed
    state.done = state.done * fade
  end
  state.seen = now
end
