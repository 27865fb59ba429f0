-- fixedwindow_refund.lua: give units back to the window that they were taken from, if it is still open.
-- KEYS:  key
-- ARGV:  units; closes ms, of that window
-- Reply: units given back
-- Cost:  O(1)
-- Uses:  DECRBY GET PEXPIRETIME
local key, units, closes = KEYS[1], ARGV[1] + 0, ARGV[2] + 0
--@ whole
--@ fixedwindow_return
return { back }
