-- tokenbucket_take.lua: grant as many of `count` requests of `cost` tokens each as the refilled bucket holds.
-- KEYS:  key
-- ARGV:  cost tokens; count requests; burst tokens; n tokens; d us; plan "burst n d"
-- Reply: granted requests; remaining tokens; part 1/d tokens; ahead us; now us; refunded tokens
-- Cost:  O(1)
-- Uses:  HMGET HSET PEXPIREAT PTTL TIME
local key, cost, count = KEYS[1], ARGV[1] + 0, ARGV[2] == '1' and 1 or ARGV[2] + 0
local burst, n, d, plan = ARGV[3] + 0, ARGV[4] + 0, ARGV[5] + 0, ARGV[6]
--@ now
--@ tokenbucket_look
local room = tokens
--@ fit
tokens = tokens - units
--@ tokenbucket_ahead
local write, anew = units > 0 or state == 2 or at > now + ahead, state ~= 1
--@ tokenbucket_charge
return { granted, tokens, part, ahead, now, refunded }
