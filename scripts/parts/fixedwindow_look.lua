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
