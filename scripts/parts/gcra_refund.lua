-- gcra_refund.lua: give units back, but for what of them would have been earned again meanwhile.
-- KEYS:  key
-- ARGV:  units 1/n us; left 1/n us, spent when they were; taken us; capacity 1/n us; n tokens
-- Reply: units given back, 1/n us
-- Cost:  O(1)
-- Uses:  GET PEXPIRETIME PTTL SET TIME
local key, spending, left, taken = KEYS[1], ARGV[1] + 0, ARGV[2] + 0, ARGV[3] + 0
local capacity, n = ARGV[4] + 0, ARGV[5] + 0
--@ now
--@ gcra_modulus
--@ gcra_look
--@ gcra_return
return { back }
