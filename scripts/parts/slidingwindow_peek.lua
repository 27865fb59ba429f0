-- slidingwindow_peek.lua: what a take would find. Writes nothing.
-- KEYS:  key
-- ARGV:  limit units; window us
-- Reply: granted requests, always 0; remaining units, below 0 where the limit was lowered; previous units; now us
-- Cost:  O(1)
-- Uses:  HMGET TIME
local key, limit, window = KEYS[1], ARGV[1] + 0, ARGV[2] + 0
--@ now
--@ slidingwindow_look
return { 0, remaining, previous, now }
