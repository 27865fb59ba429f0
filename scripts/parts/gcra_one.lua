-- gcra_one.lua: grant a request if it fits.
-- KEYS:  key
-- ARGV:  units 1/n us; capacity 1/n us; n tokens
-- Reply: granted requests; spent 1/n us; now us
-- Cost:  O(1)
-- Uses:  GET PEXPIRETIME PTTL SET TIME
local key, units, capacity, n = KEYS[1], ARGV[1] + 0, ARGV[2] + 0, ARGV[3] + 0
--@ now
--@ gcra_modulus
--@ gcra_look
local granted = 1
if spent + units > capacity then
  granted, units = 0, 0
end
--@ gcra_charge
return { granted, spent, now }
