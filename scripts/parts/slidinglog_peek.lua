-- slidinglog_peek.lua: what a take would find. Writes nothing.
-- KEYS:  key
-- ARGV:  limit units; window us
-- Reply: granted requests, always 0; remaining units; retry us, of one unit; reset us
-- Cost:  O(log N) for N grants in the window
-- Uses:  TIME ZCOUNT ZRANGE ZRANGEBYSCORE ZRANK ZREVRANGEBYSCORE
local key, limit, window = KEYS[1], ARGV[1] + 0, ARGV[2] + 0
--@ whole
--@ now
--@ slidinglog_look
local cost, refused = 1, true
--@ slidinglog_waits
return { 0, math.max(limit - total, 0), retry, reset }
