-- fixedwindow_peek.lua: what a take would find in the open window. Writes nothing.
-- KEYS:  key
-- ARGV:  limit units; window ms; mode 0..3
-- Reply: granted requests, always 0; remaining units; left ms
-- Cost:  O(1)
-- Uses:  GET PEXPIRETIME PTTL TIME
local key, limit, window, mode = KEYS[1], ARGV[1] + 0, ARGV[2] + 0, ARGV[3]
--@ fixedwindow_now
--@ fixedwindow_look
return { 0, room, left }
