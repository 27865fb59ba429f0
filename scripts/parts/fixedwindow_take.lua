-- fixedwindow_take.lua: grant as many of `count` requests of `cost` units each as fit into the open window.
-- KEYS:  key
-- ARGV:  cost units; count requests; limit units; window ms; mode 0..3
-- Reply: granted requests; remaining units; left ms; closes ms, 0 if no unit was granted
-- Cost:  O(1)
-- Uses:  GET INCRBY PEXPIRE PEXPIREAT PEXPIRETIME PTTL SET TIME
local key, cost, count = KEYS[1], ARGV[1] + 0, ARGV[2] == '1' and 1 or ARGV[2] + 0
local limit, window, mode = ARGV[3] + 0, ARGV[4] + 0, ARGV[5]
--@ fixedwindow_now
--@ fixedwindow_look
--@ fit
--@ whole
--@ fixedwindow_charge
--@ fixedwindow_closes
return { granted, room - units, left, closes }
