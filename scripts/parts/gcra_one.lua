-- gcra_one.lua: grant a request if it fits.
-- KEYS:  key
-- ARGV:  units 1/n us; capacity 1/n us; n tokens
-- Reply: spent 1/n us, or -1 - spent when denied
-- Cost:  O(1)
-- Uses:  GET PEXPIRETIME PTTL SET TIME
local key, units, capacity, n = KEYS[1], ARGV[1] + 0, ARGV[2] + 0, ARGV[3] + 0
--@ now
--@ gcra_modulus
--@ gcra_look
local denied = spent + units > capacity
if denied then
  units = 0
end
--@ gcra_charge
return denied and -1 - spent or spent
