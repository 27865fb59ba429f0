-- fleet_beat.lua: note that a process is there, and count those that are.
-- KEYS:  key
-- ARGV:  name of the process
-- Reply: processes; span us, for which this one counts without a further beat
-- Cost:  O(log n) of n processes, and O(1) for each that is gone
-- Uses:  PEXPIRE TIME ZADD ZCARD ZREMRANGEBYSCORE
local key, process = KEYS[1], ARGV[1]

-- Now, in microseconds of the server's clock since 1970. Added as numbers: as text, "5" microseconds would
-- need its leading zeros.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

-- whole(integer): a whole number as text with all its digits. A number handed to a command as it is may be
-- written as 1e+15, or cut to 14 digits by tostring and "..". In halves, for %d reads 32 bits where that is
-- what a C long has.
local function whole(integer)
  if integer < 1000000000 then
    return string.format('%d', integer)
  end
  return string.format('%d%09d', (integer - integer % 1000000000) / 1000000000, integer % 1000000000)
end

-- Stored: a sorted set of processes, each with the moment until which it counts, in microseconds. That is three
-- seconds away, and more in a fleet above 300, so that all together beat no more than 300 times a second: up to
-- a minute. Those whose moment is over are gone; one that is further away than it can be was left by a clock
-- that stepped back, and is put right by the next beat of its process.
redis.call('ZREMRANGEBYSCORE', key, '-inf', whole(now))
redis.call('ZREMRANGEBYSCORE', key, whole(now + 60000001), '+inf')
local span = math.min(math.max(redis.call('ZCARD', key) * 10000, 3000000), 60000000)
redis.call('ZADD', key, whole(now + span), process)
redis.call('PEXPIRE', key, '60000')
return { redis.call('ZCARD', key), span }
