-- gcra_peek.lua: what a take would find spent. Writes nothing.
-- KEYS:  key
-- ARGV:  capacity 1/n us; n tokens
-- Reply: granted requests, always 0; spent 1/n us
-- Cost:  O(1)
-- Uses:  GET PEXPIRETIME TIME
local key, capacity, n = KEYS[1], ARGV[1] + 0, ARGV[2] + 0
--@ now
--@ gcra_modulus
--@ gcra_look
return { 0, spent }
