-- fixedwindow_take.lua: grant as many of `count` requests of `cost` units each as fit into the open window.
-- KEYS:  key
-- ARGV:  cost units; count requests; limit units; window ms; mode 0..3
-- Reply: granted requests; remaining units; left ms
-- Cost:  O(1)
-- Uses:  GET INCRBY PEXPIRE PEXPIREAT PEXPIRETIME PTTL SET TIME
--@ whole
--@ now
--@ fit
--@ fixedwindow_look
--@ fixedwindow_charge
local cost, count, limit = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local nowMillis = ARGV[5] == '1' and math.floor(nowMicros() / 1000) or 0
local used, left, mend = fixedWindowLook(KEYS[1], 3, nowMillis)
local room = math.max(limit - used, 0)
local granted = fit(room, cost, count)
left = fixedWindowCharge(KEYS[1], 3, nowMillis, granted * cost, granted < count, left, mend)
return { granted, room - granted * cost, left }
