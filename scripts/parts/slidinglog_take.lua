-- slidinglog_take.lua: grant as many of `count` requests of `cost` units each as fit into the window that
-- ends now.
-- KEYS:  key
-- ARGV:  cost units; count requests; limit units; window us
-- Reply: granted requests; remaining units; retry us, 0 if all were granted; reset us; sum units, of the log; now us
-- Cost:  O(log N) for N grants in the window, and O(250) to take away what is out or ahead
-- Uses:  PEXPIREAT PEXPIRETIME TIME ZADD ZCARD ZCOUNT ZRANGE ZRANGEBYSCORE ZRANK ZREMRANGEBYRANK
--        ZREMRANGEBYSCORE ZREVRANGEBYSCORE
local key, cost, count = KEYS[1], ARGV[1] + 0, ARGV[2] == '1' and 1 or ARGV[2] + 0
local limit, window = ARGV[3] + 0, ARGV[4] + 0
--@ whole
--@ now
--@ slidinglog_look
local room = math.max(limit - total, 0)
--@ fit
--@ slidinglog_entry
--@ slidinglog_charge
local refused = granted < count
--@ slidinglog_waits
return { granted, room - units, retry, reset, sum, now }
