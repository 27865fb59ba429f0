-- fixedwindow_many.lua: of each key, grant as many of `count` requests of `cost` units each as fit into the open window.
-- KEYS:  keys
-- ARGV:  cost units; limit units; window ms; mode 0..1; of each key: count requests
-- Reply: of each key: granted requests, below 0 where there is no decision; remaining units; left ms; closes ms, 0 if no
--        unit was granted
-- Cost:  O(keys)
-- Uses:  GET INCRBY PEXPIRE PEXPIREAT PEXPIRETIME PTTL SET TIME
local cost, limit, window, mode = ARGV[1] + 0, ARGV[2] + 0, ARGV[3] + 0, ARGV[4]
local reply, fields, arguments = {}, 4, 4
--@ fixedwindow_now
--@ whole

local function decide(key, count, filled)
  --@ fixedwindow_look
  --@ fit
  reply[filled + 1] = 0
  --@ fixedwindow_charge
  --@ fixedwindow_closes
  reply[filled + 1], reply[filled + 2], reply[filled + 3], reply[filled + 4] = granted, room - units, left, closes
end
--@ many
return reply
