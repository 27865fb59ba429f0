-- slidinglog_peek.lua: what a take would find. Writes nothing.
-- KEYS:  key
-- ARGV:  limit units; window us
-- Reply: granted requests, always 0; remaining units; retry us, of one unit; reset us
-- Cost:  O(log N) for N grants in the window
-- Uses:  TIME ZCARD ZRANGE ZRANGEBYSCORE ZRANK
local key, limit, window = KEYS[1], ARGV[1] + 0, ARGV[2] + 0

-- whole(integer): a whole number as text with all its digits. A number handed to a command as it is may be written
-- as 1e+15, or cut to 14 digits by tostring and "..". In halves, for %d reads 32 bits where that is what a C
-- long has.
local function whole(integer)
  if integer < 1000000000 then
    return string.format('%d', integer)
  end
  return string.format('%d%09d', (integer - integer % 1000000000) / 1000000000, integer % 1000000000)
end

-- Now, in microseconds of the server's clock since 1970. Added as numbers: as text, "5" microseconds would
-- need its leading zeros.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

-- SlidingLog. Stored, a sorted set: a member for each grant, its score the moment of it in microseconds. The
-- member is the sum of all units granted up to and with it, modulo 10^11, after a digit 1 in eleven digits (zeros
-- in front would make it octal to some readers), and after a colon its own units where they are not 1. So members
-- differ whatever the rate, those of one moment are in the order of their grants, and what was granted from one
-- member to another is the difference of their sums: nothing is ever added up over the log. (After 10^11 units
-- the sums begin again; of two grants in one microsecond, one before and one after that, the order would be
-- lost, and the total with it.)
--   limit   units
--   window  us; a grant one window old is out
-- Found: the total of the units in the window; the oldest member in it, its units, and the sum before it; the sum
-- and the moment of the newest member; whether the log has members that are out. Members ahead of the clock,
-- which stepped back, count as of now.
local total, before, oldestUnits, sum, newest = 0, 0, 0, 0, 0
local oldest = redis.call('ZRANGE', key, '0', '0', 'WITHSCORES')
local stored = oldest[1] ~= nil
local trim = stored and oldest[2] + 0 <= now - window
if trim then
  oldest = redis.call('ZRANGEBYSCORE', key, whole(now - window + 1), '+inf', 'WITHSCORES', 'LIMIT', '0', '1')
end
if oldest[1] then
  local last = redis.call('ZRANGE', key, '-1', '-1', 'WITHSCORES')
  sum, newest = string.sub(last[1], 1, 12) + 0, last[2] + 0
  oldestUnits = string.sub(oldest[1], 14)
  oldestUnits = oldestUnits == '' and 1 or oldestUnits + 0
  before = (string.sub(oldest[1], 1, 12) - oldestUnits) % 100000000000
  total = (sum - before) % 100000000000
end
local retry, cost = 0, 1

-- How long it takes until a request of `cost` units fits: until the members are out whose units it lacks.
-- Members have at least one unit each, so that it is the lacking-th one at the latest, and that one if all
-- have one.
local lacking = total + cost - limit
if lacking > 0 then
  local last = oldest
  if lacking > oldestUnits then
    local low, members = redis.call('ZRANK', key, oldest[1]), redis.call('ZCARD', key)
    local high = math.min(low + lacking, members) - 1
    low = total == members - low and high or low + 1
    while low < high do
      local middle = (low + high - (low + high) % 2) / 2
      local probe = redis.call('ZRANGE', key, whole(middle), whole(middle))[1]
      if (string.sub(probe, 1, 12) - before) % 100000000000 >= lacking then
        high = middle
      else
        low = middle + 1
      end
    end
    last = redis.call('ZRANGE', key, whole(low), whole(low), 'WITHSCORES')
  end
  retry = math.min(last[2] + 0, now) + window - now
end
return { 0, math.max(limit - total, 0), retry, total > 0 and math.min(newest, now) + window - now or 0 }
