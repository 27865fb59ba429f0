-- slidingwindow_many.lua: of each key, grant as many of `count` requests of `cost` units each as fit.
-- KEYS:  keys
-- ARGV:  cost units; limit units; window us; of each key: count requests
-- Reply: of each key: granted requests, below 0 where there is no decision; remaining units, below 0 where the limit was
--        lowered; previous units; now us
-- Cost:  O(keys)
-- Uses:  HINCRBY HMGET HSET PEXPIREAT PTTL TIME
local cost, limit, window = ARGV[1] + 0, ARGV[2] + 0, ARGV[3] + 0
local reply, fields, arguments = {}, 4, 3
--@ now
--@ whole

local function decide(key, count, filled)
  --@ slidingwindow_look
  local room = math.max(remaining, 0)
  --@ fit
  reply[filled + 1] = 0
  --@ slidingwindow_charge
  reply[filled + 1], reply[filled + 2], reply[filled + 3], reply[filled + 4] = granted, remaining - units, previous, now
end
--@ many
return reply
