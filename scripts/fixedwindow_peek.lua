-- fixedwindow_peek.lua: what a take would find in the open window. Writes nothing.
-- KEYS:  key
-- ARGV:  limit units; window ms; mode 0..3
-- Reply: granted requests, always 0; remaining units; left ms
-- Cost:  O(1)
-- Uses:  GET PEXPIRETIME PTTL TIME
local key, limit, window, mode = KEYS[1], ARGV[1] + 0, ARGV[2] + 0, ARGV[3]

-- Only windows on the grid of the clock need to know the time ("clocked").
local nowMillis, clocked = 0, mode == '1'
if clocked then
  -- Now, in microseconds of the server's clock since 1970. Added as numbers: as text, "5" microseconds would
  -- need its leading zeros.
  local time = redis.call('TIME')
  local now = time[1] * 1000000 + time[2]
  nowMillis = (now - now % 1000) / 1000
end

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
return { 0, room, left }
