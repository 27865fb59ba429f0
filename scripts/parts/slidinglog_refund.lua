-- slidinglog_refund.lua: give the units of a grant back, once.
-- KEYS:  key
-- ARGV:  units; sum units, of the log with the grant; taken us
-- Reply: units given back
-- Cost:  O(log N) for N grants in the window, O(250) where later grants were given back before, and O(n) where n
--        were made in the same microsecond
-- Uses:  ZADD ZRANGE ZRANGEBYSCORE ZRANK ZREM ZREMRANGEBYSCORE ZREVRANGEBYSCORE ZSCORE
local key, units, sum, taken = KEYS[1], ARGV[1] + 0, ARGV[2] + 0, ARGV[3] + 0
--@ whole
--@ slidinglog_entry
--@ slidinglog_return
return { back }
