-- slidinglog_peek.lua: what a take would find. Writes nothing.
-- KEYS:  key
-- ARGV:  limit units; window us
-- Reply: granted requests, always 0; remaining units; retry us, of one unit; reset us
-- Cost:  O(log N) for N grants in the window
-- Uses:  TIME ZCARD ZRANGE ZRANGEBYSCORE ZRANK
local key, limit, window = KEYS[1], ARGV[1] + 0, ARGV[2] + 0
--@ whole
--@ now
--@ slidinglog_look
local retry, cost = 0, 1
--@ slidinglog_retry
return { 0, math.max(limit - total, 0), retry, total > 0 and math.min(newest, now) + window - now or 0 }
