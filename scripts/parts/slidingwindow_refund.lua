-- slidingwindow_refund.lua: give units back to the window that they were counted in, as long as it has a weight.
-- KEYS:  key
-- ARGV:  units; taken us, when they were; window us
-- Reply: units given back
-- Cost:  O(1)
-- Uses:  HMGET HSET
local key, units, taken, window = KEYS[1], ARGV[1] + 0, ARGV[2] + 0, ARGV[3] + 0
--@ whole
--@ slidingwindow_return
return { back }
