-- slidingwindow_take.lua: grant as many of `count` requests of `cost` units each as fit.
-- KEYS:  key
-- ARGV:  cost units; count requests; limit units; window us
-- Reply: granted requests; remaining units, below 0 where the limit was lowered; previous units; now us
-- Cost:  O(1)
-- Uses:  HINCRBY HMGET HSET PEXPIREAT PTTL TIME
local key, cost, count = KEYS[1], ARGV[1] + 0, ARGV[2] == '1' and 1 or ARGV[2] + 0
local limit, window = ARGV[3] + 0, ARGV[4] + 0
--@ now
--@ slidingwindow_look
local room = math.max(remaining, 0)
--@ fit
--@ slidingwindow_charge
return { granted, remaining - units, previous, now }
