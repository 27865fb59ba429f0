-- fixedwindow_peek.lua: what a take would find in the open window. Writes nothing.
-- KEYS:  key
-- ARGV:  limit units; window ms; mode 0..3
-- Reply: granted requests, always 0; remaining units; left ms
-- Cost:  O(1)
-- Uses:  GET PEXPIRETIME PTTL TIME
--@ now
--@ fixedwindow_look
local nowMillis = ARGV[3] == '1' and math.floor(nowMicros() / 1000) or 0
local used, left = fixedWindowLook(KEYS[1], 1, nowMillis)
return { 0, math.max(tonumber(ARGV[1]) - used, 0), left }
