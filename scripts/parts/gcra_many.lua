-- gcra_many.lua: of each key, grant as many of `count` requests of `cost` units each as fit.
-- KEYS:  keys
-- ARGV:  cost 1/n us; capacity 1/n us; n tokens; of each key: count requests
-- Reply: of each key: granted requests, below 0 where there is no decision; spent 1/n us; now us
-- Cost:  O(keys)
-- Uses:  GET PEXPIRETIME PTTL SET TIME
local cost, capacity, n = ARGV[1] + 0, ARGV[2] + 0, ARGV[3] + 0
local reply, fields, arguments = {}, 3, 3
--@ now
--@ gcra_modulus
--@ whole

local function decide(key, count, filled)
  --@ gcra_look
  local room = capacity - spent
  --@ fit
  reply[filled + 1] = 0
  --@ gcra_charge
  reply[filled + 1], reply[filled + 2], reply[filled + 3] = granted, spent, now
end
--@ many
return reply
