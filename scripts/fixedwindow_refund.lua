-- fixedwindow_refund.lua: give units back to the window that they were taken from, if it is still open.
-- KEYS:  key
-- ARGV:  units; closes ms, of that window
-- Reply: units given back
-- Cost:  O(1)
-- Uses:  DECRBY GET PEXPIRETIME
local key, units, closes = KEYS[1], ARGV[1] + 0, ARGV[2] + 0

-- whole(integer): a whole number as text with all its digits. A number handed to a command as it is may be
-- written as 1e+15, or cut to 14 digits by tostring and "..". In halves, for %d reads 32 bits where that is
-- what a C long has.
local function whole(integer)
  if integer < 1000000000 then
    return string.format('%d', integer)
  end
  return string.format('%d%09d', (integer - integer % 1000000000) / 1000000000, integer % 1000000000)
end

-- A window is known by its end: a later one ends later, and one that was cut shorter, or started again, is
-- not known again.
local back = 0
local counted = redis.call('GET', key)
if counted and redis.call('PEXPIRETIME', key) == closes then
  back = math.min(units, counted + 0)
  redis.call('DECRBY', key, whole(back))
end
return { back }
