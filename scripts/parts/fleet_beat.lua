-- fleet_beat.lua: note that a process is there, and count those that are.
-- KEYS:  key
-- ARGV:  name of the process
-- Reply: processes; span us, for which this one counts without a further beat
-- Cost:  O(log n) of n processes, and O(1) for each that is gone
-- Uses:  PEXPIRE TIME ZADD ZCARD ZREMRANGEBYSCORE
local key, process = KEYS[1], ARGV[1]
--@ now
--@ whole

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
