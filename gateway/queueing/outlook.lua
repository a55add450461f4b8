-- What is to be expected: places, times, speeds. Follows turns.lua; changes nothing but what was measured.

-- How many turns somebody takes before another comes level who is `gap` turns ahead; `first`: of equals it goes first.
local function turns_before(gap, first)
  gap = math.floor(gap * 1e6 + 0.5) / 1e6
  if gap < 0 then return 0 end
  return first and math.floor(gap) + 1 or math.ceil(gap)
end

local function mean_of(class, otherwise)
  local count = class_waiting(class)
  return count > 0 and math.max(1, state['expected' .. class] / count) or otherwise
end

-- Where a request stands among all that wait for any of its choices, if nobody else came and all took what they are
-- expected to. Without an id: where it would stand if it joined.
local function place_of(ask, id)
  local class, own, wanted = ask.class, ask.subject .. '\0' .. ask.lane, {}
  local key = class .. own
  for _, name in ipairs(backends_of(ask.lane)) do wanted[name] = true end
  local rivals = lanes_where(function(name) return wanted[name] end)
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
    if other ~= own and rivals[lane_of(other)] then
      local turns = turns_before((level - tonumber(found[index + 1])) / unit, not first or ticket < first)
      before = before + (turns > 1 and math.min(waiting(class .. other), turns) or turns) -- one at least waits
    end
  end
  local place, virtual = before + 1, pass + before * mean / config.classes[class].weight
  for other = 1, #ORDER do
    local theirs, count = mean_of(other, 1), class_waiting(other, rivals)
    if other ~= class and count > 0 then
      local gap = (virtual - state['pass' .. other]) * config.classes[other].weight / theirs
      place = place + math.min(count, turns_before(gap, other < class))
    end
  end
  return place
end

-- wait_seconds of backends/capacity, here because this script decides by it: of a place in the line, how long a turn is
-- held, and how many are in use. As turns have been held while in use: an idle night does not make an engine slow.
-- Those in use count at what takes somebody new.
local function eta(place, lane)
  local running, taking = 0, false
  for _, name in ipairs(backends_of(lane)) do
    local rules = config.backends[name]
    if rules and rules.capacity > 0 then running, taking = running + running_at(name), true end
  end
  if not taking or state.done < FEWEST_TURNS then return -1 end
  return math.ceil(place * state.busy / state.done / math.max(1, running))
end

local function next_expiry()
  local first = redis.call('ZRANGE', LEASES, 0, 0, 'WITHSCORES')[2]
  return first and math.max(0, tonumber(first) - now) or -1
end

local function learn_speed(held, pace)
  local running = math.max(1, held.beside / math.max(1, now - held.granted))
  local sums = { 1, running, pace, running * running, running * pace, pace * pace }
  for index, before in ipairs(read(SPEED, held.backend) or {}) do
    sums[index] = sums[index] + before * SPEED_MEMORY
  end
  redis.call('HSET', SPEED, held.backend, cmsgpack.pack(sums))
end
