-- fixedwindow_many.lua: of each key, grant as many of `count` requests of `cost` units each as fit into the open window.
-- KEYS:  keys
-- ARGV:  cost units; limit units; window ms; mode 0..1; of each key: count requests
-- Reply: of each key: granted requests, below 0 where there is no decision; remaining units; left ms; closes ms, 0 if no
--        unit was granted
-- Cost:  O(keys)
-- Uses:  GET INCRBY PEXPIRE PEXPIREAT PEXPIRETIME PTTL SET TIME
local cost, limit, window, mode = ARGV[1] + 0, ARGV[2] + 0, ARGV[3] + 0, ARGV[4]
local reply, fields, arguments = {}, 4, 4

-- Only windows on the grid of the clock need to know the time ("clocked").
local nowMillis, clocked = 0, mode == '1'
if clocked then
  -- Now, in microseconds of the server's clock since 1970. Added as numbers: as text, "5" microseconds would
  -- need its leading zeros.
  local time = redis.call('TIME')
  local now = time[1] * 1000000 + time[2]
  nowMillis = (now - now % 1000) / 1000
end

-- whole(integer): a whole number as text with all its digits. A number handed to a command as it is may be
-- written as 1e+15, or cut to 14 digits by tostring and "..". In halves, for %d reads 32 bits where that is
-- what a C long has.
local function whole(integer)
  if integer < 1000000000 then
    return string.format('%d', integer)
  end
  return string.format('%d%09d', (integer - integer % 1000000000) / 1000000000, integer % 1000000000)
end

local function decide(key, count, filled)
  -- FixedWindow. Stored: a counter of the units granted in the open window; the key's expiry is the window's
  -- end.
  --   limit   units
  --   window  ms
  --   mode    0: opens at the first grant; 1: on the grid of the server's clock; 2: as 0, and any refusal starts the
  --           window again; 3: as 2, but only when nothing at all was granted
  -- Found: the units used, and the ms left until the open window ends; 0: no window is open. Redis still
  -- shows a key in the millisecond in which it ends, with 0 ms left: that window is over. "mend" says that
  -- the stored expiry is missing, or later than this plan allows, and has to be set to what is left.
  -- "longest" is how long a window lasts that opens now.
  local used, left, mend, longest = 0, 0, false, window
  if mode == '1' then
    longest = window - nowMillis % window
  end
  local counted = redis.call('GET', key)
  if counted then
    if clocked then
      left = redis.call('PEXPIRETIME', key)
      if left >= 0 then
        left = math.max(left - nowMillis, 0)
      end
    else
      left = redis.call('PTTL', key)
    end
    if left < 0 or left > longest then
      left, mend = longest, true
    end
    if left > 0 then
      used = counted + 0
    end
  end
  local room = limit - used
  if room < 0 then
    room = 0
  end
  -- Granted: as many of `count` requests of `cost` units each as fit into `room` >= 0; a look, of cost 0,
  -- always fits.
  local granted = count
  if cost * count > room then
    granted = (room - room % cost) / cost
  end
  local units = granted * cost
  reply[filled + 1] = 0
  -- The units granted are added, and the expiry kept right.
  if units > 0 then
    local added = ARGV[1]
    if granted > 1 then
      added = whole(units)
    end
    if left > 0 then
      redis.call('INCRBY', key, added)
    elseif clocked then
      left = longest
      redis.call('SET', key, added, 'PXAT', whole(nowMillis + left))
    else
      left = longest
      redis.call('SET', key, added, 'PX', whole(left))
    end
  end
  if granted < count and left > 0 and (mode == '2' or mode == '3' and units == 0) then
    left, mend = window, true
  end
  if mend and clocked then
    redis.call('PEXPIREAT', key, whole(nowMillis + left))
  elseif mend then
    redis.call('PEXPIRE', key, whole(left))
  end
  -- When the window of a grant ends: the moment by which it is known again when units are given back.
  local closes = 0
  if units > 0 and clocked then
    closes = nowMillis + left
  elseif units > 0 then
    closes = redis.call('PEXPIRETIME', key)
  end
  reply[filled + 1], reply[filled + 2], reply[filled + 3], reply[filled + 4] = granted, room - units, left, closes
end

-- Each key is decided by itself, so that one where something else is stored costs the others nothing. Where it
-- could not be, "granted" is -1, and nothing was charged; or -2, and it may have been, for a command failed that
-- may come behind another one that writes. Those that fail for what the server or the key is like fail as the first.
--   decide(key, count, filled)  puts its `fields` integers behind the first `filled` of the reply, and a 0 there
--                               before it writes anything
for i = 1, #KEYS do
  local count, filled = ARGV[arguments + i], (i - 1) * fields
  local decided, wrong = pcall(decide, KEYS[i], count == '1' and 1 or count + 0, filled)
  local late = false
  if not decided and reply[filled + 1] then
    wrong, late = type(wrong) == 'table' and wrong.err or wrong, true
    local first = { 'OOM', 'READONLY', 'MISCONF', 'NOREPLICAS', 'not an integer', 'non local key' }
    for j = 1, #first do
      late = late and not string.match(wrong, first[j])
    end
  end
  if not decided or reply[filled + 1] < 0 then
    reply[filled + 1] = late and -2 or -1
    for field = 2, fields do
      reply[filled + field] = 0
    end
  end
end
return reply
