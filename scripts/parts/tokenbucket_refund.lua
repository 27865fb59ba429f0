-- tokenbucket_refund.lua: give tokens back to the bucket, but for what of them was earned again meanwhile.
-- KEYS:  key
-- ARGV:  units tokens; left tokens; leftPart 1/d tokens; taken us; refundedThen tokens; burst tokens; n tokens;
--        d us; plan "burst n d"
-- Reply: tokens given back, rounded down
-- Cost:  O(1)
-- Uses:  HMGET HSET PEXPIREAT PTTL TIME
local key, units, left, leftPart, taken = KEYS[1], ARGV[1] + 0, ARGV[2] + 0, ARGV[3] + 0, ARGV[4] + 0
local refundedThen, burst, n, d, plan = ARGV[5] + 0, ARGV[6] + 0, ARGV[7] + 0, ARGV[8] + 0, ARGV[9]
--@ now
--@ tokenbucket_look
--@ tokenbucket_return
return { back }
