-- slidingwindow_refund.lua: give units back to the window that they were counted in, as long as it has a weight.
-- KEYS:  key
-- ARGV:  units; taken us, when they were; window us
-- Reply: units given back
-- Cost:  O(1)
-- Uses:  HMGET HSET
local key, units, taken, window = KEYS[1], ARGV[1] + 0, ARGV[2] + 0, ARGV[3] + 0

-- whole(integer): a whole number as text with all its digits. A number handed to a command as it is may be
-- written as 1e+15, or cut to 14 digits by tostring and "..". In halves, for %d reads 32 bits where that is
-- what a C long has.
local function whole(integer)
  if integer < 1000000000 then
    return string.format('%d', integer)
  end
  return string.format('%d%09d', (integer - integer % 1000000000) / 1000000000, integer % 1000000000)
end

-- What is stored is left at the window that was open last, and what is given back is taken off the one that
-- it was counted in: that one, or the one before. Under windows of another length it is not known any more.
local back = 0
local h = redis.call('HMGET', key, 'i', 'p', 'c', 'w')
if h[1] and h[4] + 0 == window then
  local behind = h[1] - (taken - taken % window) / window
  if behind == 0 then
    back = math.min(units, h[3] + 0)
    redis.call('HSET', key, 'c', whole(h[3] - back))
  elseif behind == 1 then
    back = math.min(units, h[2] + 0)
    redis.call('HSET', key, 'p', whole(h[2] - back))
  end
end
return { back }
