-- tokenbucket_peek.lua: the level a take would find now. Writes nothing.
-- KEYS:  key
-- ARGV:  burst tokens; n tokens; d us; plan "burst n d"
-- Reply: granted requests, always 0; remaining tokens; part 1/d tokens; ahead us
-- Cost:  O(1)
-- Uses:  HMGET TIME
local key, burst, n, d, plan = KEYS[1], ARGV[1] + 0, ARGV[2] + 0, ARGV[3] + 0, ARGV[4]
--@ now
--@ tokenbucket_look
--@ tokenbucket_ahead
return { 0, tokens, part, ahead }
