"""The quotas' Lua scripts: RESERVE > PROGRESS ... > SETTLE, and CLAIM for those whose gateway died.

Time is the server's. Invariants, held by every script:
- a reservation exists as a hash and in RESERVATIONS, or not at all; one that was settled leaves its end mark;
- what a hash says is held or charged in a bucket is so, whatever came in between: sums are exact;
- each script may be sent twice with no more effect than once.
"""

from __future__ import annotations

from gateway.store.scripts import Script

# How the server's time is read: one line, so that tests can put a clock of their own in its place.
CLOCK = "local clock = redis.call('TIME')"

# A rule, one of those parted by ; in an argument, says of its bucket:
#   kind  shadow  unit  limit  first-end  second-end  and what a request, an uncached input, a cached input and an
#   output token count for, in millionths.
# Kinds: a (attempts: requests a minute, spent when asked), f (flow: tokens a minute, held until used), c (counter of
# a day or month), z (requests in flight). A counter has two keys: of the period that holds `now`, and of the next.
#
# a and f are GCRA, kept as a level that drains at limit/period and the time at which it was so; held tokens do not
# drain, so that what is refunded later was never lent twice. A level rather than a time of arrival: it has no rounding
# to speak of, and a clock that jumps back stops it for a moment, not until the old time comes again.
_COMMON = (
    CLOCK
    + """
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local SCALE, HOUR, DAY = 1000000, 3600000, 86400000

local function rules(packed, first)
  local list, key = {}, first
  for line in string.gmatch(packed, '[^;]+') do
    local f = {}
    for word in string.gmatch(line, '%S+') do f[#f + 1] = word end
    local rule = {kind = f[1], shadow = f[2] == '1', unit = f[3], key = KEYS[key]}
    rule.limit, rule.period, rule.after = tonumber(f[4]), tonumber(f[5]), tonumber(f[6])
    rule.request, rule.fresh, rule.cached = tonumber(f[7]), tonumber(f[8]), tonumber(f[9])
    rule.output = tonumber(f[10])
    key = key + 1
    if rule.kind == 'c' then rule.next = KEYS[key]; key = key + 1 end
    list[#list + 1] = rule
  end
  return list, key
end

local function choose(rule, chosen)
  if rule.kind ~= 'c' then return end
  if chosen == 2 or (not chosen and now >= rule.period) then
    rule.key, rule.period, rule.chosen = rule.next, rule.after, 2
  else
    rule.chosen = 1
  end
end

local function amount(rule, requests, input, cached, output)
  if rule.kind == 'z' then return 1 end
  local sum = rule.request * requests + rule.fresh * (input - cached) + rule.cached * cached + rule.output * output
  return math.ceil(sum / SCALE)
end

local function read_flow(rule)
  local f = redis.call('HMGET', rule.key, 'level', 'at', 'held')
  local level, at, held = tonumber(f[1] or 0), tonumber(f[2] or 0), tonumber(f[3] or 0)
  if at > now then
    redis.call('HSET', rule.key, 'at', now)
    at = now
  end
  rule.at = at
  return math.max(0, level - (now - at) * rule.limit / rule.period), held
end

local function write_flow(rule, level, held)
  redis.call('HSET', rule.key, 'level', string.format('%.17g', math.max(0, level)), 'at', now, 'held', held)
  if now - rule.at > HOUR then redis.call('PEXPIRE', rule.key, 2 * DAY) end
end

local function count(rule, change)
  if redis.call('INCRBY', rule.key, change) == change then
    redis.call('PEXPIREAT', rule.key, rule.period + 2 * DAY)
  end
end

-- What a bucket has left, whether n fit in, in how many ms they will (-1: never), and in how many ms it is full again.
local function look(rule, n)
  if rule.kind == 'z' then
    redis.call('ZREMRANGEBYSCORE', rule.key, '-inf', now)
    local left = rule.limit - redis.call('ZCARD', rule.key)
    return left, left >= n, 1000, 0
  end
  local left, wait, reset
  if rule.kind == 'c' then
    left = rule.limit - tonumber(redis.call('GET', rule.key) or 0)
    wait, reset = rule.period - now, rule.period - now
  else
    local level, held = read_flow(rule)
    rule.level, rule.all_held = level, held
    left = rule.limit - level - held
    wait = math.max(1, math.ceil((n - left) * rule.period / rule.limit))
    reset = math.max(0, math.ceil((level + held) * rule.period / rule.limit))
  end
  if n > rule.limit then wait = -1 end
  return left, n <= left + 0.000001, wait, reset
end
"""
)

_STATE = """
-- The state of a reservation, a bucket each: chosen (0: not taken), held, charged.
local function load_state(text, list)
  local index = 0
  for chosen, held, charged in string.gmatch(text, '(%d+) (%d+) (%d+)') do
    index = index + 1
    local rule = list[index]
    rule.taken, rule.held, rule.charged = tonumber(chosen) > 0, tonumber(held), tonumber(charged)
    choose(rule, tonumber(chosen))
  end
end

local function save_state(list)
  local parts = {}
  for index, rule in ipairs(list) do
    local chosen = rule.taken and (rule.chosen or 1) or 0
    parts[index] = string.format('%d %.0f %.0f', chosen, rule.held, rule.charged)
  end
  return table.concat(parts, ';')
end
"""

# KEYS 1 reservation  2 end mark  3 RESERVATIONS  4 estimate  5... buckets
# ARGV 1 request id  2 lease ms  3 rules  4 input tokens  5 room for output  6 floor  7 unlearned  8 margin  9 key names
#      10 a note for whoever settles it in its gateway's place
# Answers {state, now, output reserved, asked of the bucket, left in it, its index, wait ms, requests' limit, left,
# reset, tokens' limit, left, reset, indices of shadow limits that would have refused ...}; state: 1 reserved,
# 0 refused, -1 ended before it began. A limit of -1: there is none.
RESERVE = Script(
    _COMMON
    + _STATE
    + """
if redis.call('EXISTS', KEYS[2]) == 1 then return {-1, now} end
local state = redis.call('HGET', KEYS[1], 'state')
local list = rules(ARGV[3], 5)
local input, room = tonumber(ARGV[4]), tonumber(ARGV[5])
local learned = redis.call('HGET', KEYS[4], 'p90')
local expected = learned and math.ceil(tonumber(learned) * tonumber(ARGV[8])) or tonumber(ARGV[7])
local output = math.min(room, math.max(tonumber(ARGV[6]), expected))
local answer = {1, now, output, 0, 0, 0, 0, -1, 0, 0, -1, 0, 0}

if state then load_state(state, list) end
for index, rule in ipairs(list) do
  if not state then
    choose(rule)
    -- An estimate of output larger than the whole bucket would never get in; the input alone must.
    rule.n = math.min(amount(rule, 1, input, 0, output), math.max(rule.limit, amount(rule, 1, input, 0, 0)))
  else
    rule.n = 0
  end
  local fits, wait
  rule.left, fits, wait, rule.reset = look(rule, rule.n)
  rule.taken = state and rule.taken or (not state and fits)
  if not fits and not state then
    if rule.shadow then
      answer[#answer + 1] = index
    elseif answer[1] == 1 or wait < 0 or (answer[7] >= 0 and wait > answer[7]) then
      answer[1], answer[4], answer[5], answer[6], answer[7] = 0, rule.n, math.max(0, math.floor(rule.left)), index, wait
    end
  end
end

local granted = answer[1] == 1
if granted and not state then
  for _, rule in ipairs(list) do
    rule.held, rule.charged = 0, 0
    if rule.taken then
      rule.left = rule.left - rule.n
      if rule.kind == 'z' then
        redis.call('ZADD', rule.key, now + tonumber(ARGV[2]), ARGV[1])
        redis.call('PEXPIRE', rule.key, DAY)
      elseif rule.kind == 'c' then
        rule.charged = rule.n
        count(rule, rule.n)
      else
        if rule.kind == 'f' then rule.held = rule.n else rule.charged = rule.n end
        write_flow(rule, rule.level + rule.charged, rule.all_held + rule.held)
        rule.reset = rule.reset + math.ceil(rule.n * rule.period / rule.limit)
      end
    end
  end
  redis.call('HSET', KEYS[1], 'state', save_state(list), 'rules', ARGV[3], 'keys', ARGV[9], 'note', ARGV[10])
  redis.call('PEXPIRE', KEYS[1], DAY)
  redis.call('ZADD', KEYS[3], now + tonumber(ARGV[2]), ARGV[1])
end

for _, rule in ipairs(list) do
  local place = rule.unit == 'r' and 8 or (rule.unit == 't' and 11)
  local left = math.max(0, math.floor(rule.left))
  if place and not rule.shadow and (answer[place] < 0 or left < answer[place + 1]) then
    answer[place], answer[place + 1], answer[place + 2] = rule.limit, left, rule.reset
  end
end
return answer
"""
)

# Renews leases, and charges what was streamed so far: a flow drains from when it was used, not from the end.
# KEYS 1 RESERVATIONS, then for each request its reservation and buckets
# ARGV 1 lease ms, then for each request: id, rules, requests, input, cached, output. Answers how many were found.
PROGRESS = Script(
    _COMMON
    + _STATE
    + """
local lease, found, key = tonumber(ARGV[1]), 0, 2
for place = 2, #ARGV, 6 do
  local id, name = ARGV[place], KEYS[key]
  local list, next_key = rules(ARGV[place + 1], key + 1)
  key = next_key
  local state = redis.call('HGET', name, 'state')
  if state then
    found = found + 1
    load_state(state, list)
    for _, rule in ipairs(list) do
      if rule.taken and rule.kind == 'z' then
        redis.call('ZADD', rule.key, now + lease, id)
        redis.call('PEXPIRE', rule.key, DAY)
      elseif rule.taken and rule.kind ~= 'a' then
        local used = amount(rule, ARGV[place + 2], ARGV[place + 3], ARGV[place + 4], ARGV[place + 5])
        local more = used - rule.charged
        if more > 0 then
          if rule.kind == 'c' then
            count(rule, more)
          else
            local level, held = read_flow(rule)
            local freed = math.min(rule.held, more)
            rule.held = rule.held - freed
            write_flow(rule, level + more, math.max(0, held - freed))
          end
          rule.charged = used
        end
      end
    end
    local used = table.concat(ARGV, ' ', place + 2, place + 5)
    redis.call('HSET', name, 'state', save_state(list), 'used', used)
    redis.call('PEXPIRE', name, DAY)
    redis.call('ZADD', KEYS[1], now + lease, id)
  end
end
return found
"""
)

# What was used takes the place of what was reserved, once. Where the reservation is lost (a failover forgot it), what
# was used is charged all the same. Answers 1 for settled, 0 for settled before or no longer claimed.
# KEYS as RESERVE
# ARGV 1 request id  2 life of the end mark, s  3 rules  4 requests  5 input  6 cached  7 output  8 learn: 1 or 0
#      9 the claim of the reaper, or empty
SETTLE = Script(
    _COMMON
    + _STATE
    + """
if ARGV[9] ~= '' and tonumber(redis.call('ZSCORE', KEYS[3], ARGV[1]) or 0) ~= tonumber(ARGV[9]) then return 0 end
if not redis.call('SET', KEYS[2], 1, 'NX', 'EX', ARGV[2]) then return 0 end
redis.call('ZREM', KEYS[3], ARGV[1])
local state = redis.call('HGET', KEYS[1], 'state')
local list = rules(ARGV[3], 5)
if state then load_state(state, list) end
for _, rule in ipairs(list) do
  if not state then
    rule.taken, rule.held, rule.charged = true, 0, 0
    choose(rule)
  end
  if rule.taken and rule.kind == 'z' then
    redis.call('ZREM', rule.key, ARGV[1])
  elseif rule.taken then
    local change = amount(rule, ARGV[4], ARGV[5], ARGV[6], ARGV[7]) - rule.charged
    if rule.kind == 'a' then change = math.max(0, change) end
    if rule.kind == 'c' then
      if change ~= 0 then count(rule, change) end
    elseif change ~= 0 or rule.held > 0 then
      local level, held = read_flow(rule)
      write_flow(rule, level + change, math.max(0, held - rule.held))
    end
  end
end
redis.call('DEL', KEYS[1])

if ARGV[8] == '1' then
  local f = redis.call('HMGET', KEYS[4], 'p90', 'seen')
  local p90, seen, output = tonumber(f[1] or 0), tonumber(f[2] or 0) + 1, math.max(1, tonumber(ARGV[7]))
  local step = math.max(0.1, 1 / math.sqrt(seen))
  if seen == 1 then
    p90 = output
  else
    p90 = p90 * math.exp(output > p90 and 0.9 * step or -0.1 * step)
  end
  redis.call('HSET', KEYS[4], 'p90', string.format('%.6g', p90), 'seen', seen)
  redis.call('EXPIRE', KEYS[4], 30 * 86400)
end
return 1
"""
)

# Takes some reservations whose leases have run out, for a while: whoever took them settles them, or another will.
# KEYS 1 RESERVATIONS; ARGV 1 how many  2 ms past the expiry  3 ms until others may. Answers {claim, id ...}.
CLAIM = Script(
    CLOCK
    + """
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
-- Half a millisecond, as no renewal has: a claim is never mistaken for one.
local claim = string.format('%.1f', now + tonumber(ARGV[3]) + 0.5)
local found = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now - tonumber(ARGV[2]), 'LIMIT', 0, ARGV[1])
for _, id in ipairs(found) do redis.call('ZADD', KEYS[1], claim, id) end
table.insert(found, 1, claim)
return found
"""
)

# How full buckets are. KEYS: buckets; ARGV 1 rules. Answers {now, left, reset ms, left, reset ms ...}.
LOOK = Script(
    _COMMON
    + """
local answer = {now}
for _, rule in ipairs((rules(ARGV[1], 1))) do
  choose(rule)
  local left, _, _, reset = look(rule, 0)
  answer[#answer + 1] = math.floor(left)
  answer[#answer + 1] = reset
end
return answer
"""
)
