-- gcra_take.lua: grant as many of `count` requests of `cost` units each as fit.
-- KEYS:  key
-- ARGV:  cost 1/n us; count requests; capacity 1/n us; n tokens
-- Reply: granted requests; spent 1/n us; now us
-- Cost:  O(1)
-- Uses:  GET PEXPIRETIME PTTL SET TIME
local key, cost, count = KEYS[1], ARGV[1] + 0, ARGV[2] == '1' and 1 or ARGV[2] + 0
local capacity, n = ARGV[3] + 0, ARGV[4] + 0
--@ now
--@ gcra_modulus
--@ gcra_look
local room = capacity - spent
--@ fit
--@ gcra_charge
return { granted, spent, now }
