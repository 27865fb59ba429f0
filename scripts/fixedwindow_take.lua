-- fixedwindow_take.lua: grant as many of `count` requests of `cost` units each as fit into the open window.
-- KEYS:  key
-- ARGV:  cost units; count requests; limit units; window ms; mode 0..3
-- Reply: granted requests; remaining units; left ms
-- Cost:  O(1)
-- Uses:  GET INCRBY PEXPIRE PEXPIREAT PEXPIRETIME PTTL SET TIME

-- whole(n): an integer as text with all its digits. A number handed to a command as it is may be written as 1e+15, or
-- cut to 14 digits by tostring and "..".
local function whole(n)
  return string.format('%.0f', n)
end

-- nowMicros(): the server's clock, microseconds since 1970. Added as numbers: as text, "5" microseconds would need its
-- leading zeros.
local function nowMicros()
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000000 + tonumber(time[2])
end

-- fit(left, cost, count): how many of `count` requests of `cost` units each fit into `left` units, left >= 0. A look,
-- of cost 0, always fits.
local function fit(left, cost, count)
  if cost == 0 or left >= cost * count then
    return count
  end
  return math.floor(left / cost)
end

-- FixedWindow. Stored: a counter of the units granted in the open window; the key's expiry is the window's end.
-- Its numbers, from ARGV[a]:
--   limit   units
--   window  ms
--   mode    0: opens at the first grant; 1: on the grid of the server's clock; 2: as 0, and any refusal starts the
--           window again; 3: as 2, but only when nothing at all was granted
-- "left" is the time until the open window ends, in ms; 0: no window is open. Redis still shows a key in the
-- millisecond in which it ends, with 0 ms left: that window is over.

-- fixedWindowLook: the units used, the ms left, and whether the stored expiry is missing or later than this plan allows
-- and has to be set to that. nowMillis is read in mode 1 only.
local function fixedWindowLook(key, a, nowMillis)
  local used = redis.call('GET', key)
  if not used then
    return 0, 0, false
  end
  local longest = tonumber(ARGV[a + 1])
  local left
  if ARGV[a + 2] == '1' then
    longest = longest - nowMillis % longest
    left = redis.call('PEXPIRETIME', key)
    if left >= 0 then
      left = math.max(left - nowMillis, 0)
    end
  else
    left = redis.call('PTTL', key)
  end
  if left == 0 then
    return 0, 0, false
  elseif left < 0 or left > longest then
    return tonumber(used), longest, true
  end
  return tonumber(used), left, false
end

-- fixedWindowCharge: adds `units` and keeps the expiry right; answers the ms left afterwards. `refused` says that of
-- the requests at least one was denied; `left` and `mend` are what fixedWindowLook said.
local function fixedWindowCharge(key, a, nowMillis, units, refused, left, mend)
  local window, mode = tonumber(ARGV[a + 1]), ARGV[a + 2]
  if units > 0 and left == 0 then
    if mode == '1' then
      left = window - nowMillis % window
      redis.call('SET', key, whole(units), 'PXAT', whole(nowMillis + left))
    else
      left = window
      redis.call('SET', key, whole(units), 'PX', ARGV[a + 1])
    end
    return left
  end
  if units > 0 then
    redis.call('INCRBY', key, whole(units))
  end
  if refused and left > 0 and (mode == '2' or mode == '3' and units == 0) then
    left, mend = window, true
  end
  if mend and mode == '1' then
    redis.call('PEXPIREAT', key, whole(nowMillis + left))
  elseif mend then
    redis.call('PEXPIRE', key, whole(left))
  end
  return left
end
local cost, count, limit = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local nowMillis = ARGV[5] == '1' and math.floor(nowMicros() / 1000) or 0
local used, left, mend = fixedWindowLook(KEYS[1], 3, nowMillis)
local room = math.max(limit - used, 0)
local granted = fit(room, cost, count)
left = fixedWindowCharge(KEYS[1], 3, nowMillis, granted * cost, granted < count, left, mend)
return { granted, room - granted * cost, left }
