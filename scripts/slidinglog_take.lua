-- slidinglog_take.lua: grant as many of `count` requests of `cost` units each as fit into the window that
-- ends now.
-- KEYS:  key
-- ARGV:  cost units; count requests; limit units; window us
-- Reply: granted requests; remaining units; retry us, 0 if all were granted; reset us
-- Cost:  O(log N) for N grants in the window, and O(250) to take away what is out or ahead
-- Uses:  PEXPIREAT PEXPIRETIME TIME UNLINK ZADD ZCARD ZCOUNT ZRANGE ZRANGEBYSCORE ZRANK ZREMRANGEBYRANK ZREMRANGEBYSCORE
local key, cost, count = KEYS[1], ARGV[1] + 0, ARGV[2] == '1' and 1 or ARGV[2] + 0
local limit, window = ARGV[3] + 0, ARGV[4] + 0

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
local room = math.max(limit - total, 0)

-- Granted: as many of `count` requests of `cost` units each as fit into `room` >= 0; a look, of cost 0,
-- always fits.
local granted = count
if cost * count > room then
  granted = (room - room % cost) / cost
end
local units = granted * cost

-- entry(sumWith, added): the member for a grant of `added` units, with which `sumWith` are granted.
local function entry(sumWith, added)
  local low = sumWith % 1000000
  local high = (sumWith % 100000000000 - low) / 1000000 + 100000
  return string.format(added == 1 and '%06d%06d' or '%06d%06d:%d', high, low, added)
end

-- What is ahead of the clock becomes one grant of now, so that all is out within a window; and everything does,
-- where that is more than 250 members, so that this does not take long either.
local write = units > 0
if total > 0 and newest > now then
  local first = redis.call('ZRANGEBYSCORE', key, whole(now + 1), '+inf', 'LIMIT', '0', '1')[1]
  local firstUnits = string.sub(first, 14)
  firstUnits = firstUnits == '' and 1 or firstUnits + 0
  local ahead = (sum - string.sub(first, 1, 12) + firstUnits) % 100000000000
  local many = redis.call('ZCOUNT', key, whole(now + 1), '+inf') > 250
  if many then
    ahead = total
  end
  local merged = entry(sum, ahead)
  if many or ahead == total and not trim then
    redis.call('UNLINK', key)
    trim = false
  else
    redis.call('ZREMRANGEBYSCORE', key, whole(now + 1), '+inf')
  end
  if ahead == total then
    oldest, oldestUnits = { merged, now }, ahead
  end
  redis.call('ZADD', key, whole(now), merged)
  newest, write = now, true
end
-- The grant is added, as one member, and of those that are out at most 250 are taken away, so that no
-- call takes long; a log that is out as a whole is freed by Redis in the background.
if units > 0 then
  if trim and total == 0 then
    redis.call('UNLINK', key)
  elseif trim then
    redis.call('ZREMRANGEBYRANK', key, '0', whole(math.min(redis.call('ZRANK', key, oldest[1]), 250) - 1))
  end
  sum = (sum + units) % 100000000000
  local added = entry(sum, units)
  redis.call('ZADD', key, whole(now), added)
  if total == 0 then
    oldest, oldestUnits, before = { added, now }, units, (sum - units) % 100000000000
  end
  total, newest = total + units, now
end
-- The key expires when its newest grant is out; later where this plan's window is longer than the one it was set for,
-- even if nothing was granted under it yet. A large log is kept for a second more: whoever comes right then
-- finds it out and lets Redis free it in the background, where one that has expired is freed within the call.
local out = math.max(newest + window, now + 1)
if total > 1000 then
  out = out + 1000000
end
local moment = (out + -out % 1000) / 1000
if write or stored and redis.call('PEXPIRETIME', key) < (total > 0 and moment or 0) then
  redis.call('PEXPIREAT', key, whole(moment))
end
local retry = 0
if granted < count then
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
end
return { granted, room - units, retry, total > 0 and newest + window - now or 0 }
