-- tokenbucket_peek.lua: the level a take would find now. Writes nothing.
-- KEYS:  key
-- ARGV:  burst tokens; n tokens; d us
-- Reply: granted requests, always 0; remaining tokens; part 1/d tokens; ahead us
-- Cost:  O(1)
-- Uses:  HMGET TIME
--@ now
--@ tokenbucket_look
local now = nowMicros()
local tokens, part, at = tokenBucketLook(KEYS[1], 1, now)
return { 0, tokens, part, tokenBucketAhead(1, now, tokens, part, at) }
