-- tokenbucket_take.lua: grant as many of `count` requests of `cost` tokens each as the refilled bucket holds.
-- KEYS:  key
-- ARGV:  cost tokens; count requests; burst tokens; n tokens; d us
-- Reply: granted requests; remaining tokens; part 1/d tokens; ahead us
-- Cost:  O(1)
-- Uses:  HMGET HSET PEXPIREAT PEXPIRETIME PTTL TIME
--@ whole
--@ now
--@ fit
--@ tokenbucket_look
--@ tokenbucket_charge
local cost, count, now = tonumber(ARGV[1]), tonumber(ARGV[2]), nowMicros()
local tokens, part, at, state = tokenBucketLook(KEYS[1], 3, now)
local granted = fit(tokens, cost, count)
local ahead
tokens, ahead = tokenBucketCharge(KEYS[1], 3, now, granted * cost, tokens, part, at, state)
return { granted, tokens, part, ahead }
