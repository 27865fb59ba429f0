-- multiplan_peek.lua: what a take would find under each of several plans. Writes nothing.
-- KEYS:  key of each plan
-- ARGV:  of each plan its kind, and its numbers
-- Reply: granted requests, always 0; of each plan what its own script replies behind that
-- Cost:  that of each plan
-- Uses:  GET HMGET PEXPIRETIME PTTL TIME ZCOUNT ZRANGE ZRANGEBYSCORE ZRANK ZREVRANGEBYSCORE
--@ whole
--@ now
local nowMillis = (now - now % 1000) / 1000
local reply, arg = { 0 }, 1
for i = 1, #KEYS do
  local key, kind, filled = KEYS[i], ARGV[arg], #reply
  if kind == 'fw' then
    local limit, window, mode, clocked = ARGV[arg + 1] + 0, ARGV[arg + 2] + 0, ARGV[arg + 3], true
    arg = arg + 4
    --@ fixedwindow_look
    reply[filled + 1], reply[filled + 2] = room, left
  elseif kind == 'sw' then
    local limit, window = ARGV[arg + 1] + 0, ARGV[arg + 2] + 0
    arg = arg + 3
    --@ slidingwindow_look
    reply[filled + 1], reply[filled + 2], reply[filled + 3] = remaining, previous, now
  elseif kind == 'sl' then
    local limit, window = ARGV[arg + 1] + 0, ARGV[arg + 2] + 0
    arg = arg + 3
    --@ slidinglog_look
    local cost, refused = 1, true
    --@ slidinglog_waits
    reply[filled + 1], reply[filled + 2], reply[filled + 3] = math.max(limit - total, 0), retry, reset
  elseif kind == 'tb' then
    local burst, n, d, plan = ARGV[arg + 1] + 0, ARGV[arg + 2] + 0, ARGV[arg + 3] + 0, ARGV[arg + 4]
    arg = arg + 5
    --@ tokenbucket_look
    --@ tokenbucket_ahead
    reply[filled + 1], reply[filled + 2], reply[filled + 3] = tokens, part, ahead
  else
    local capacity, n = ARGV[arg + 1] + 0, ARGV[arg + 2] + 0
    arg = arg + 4
    --@ gcra_modulus
    --@ gcra_look
    reply[filled + 1] = spent
  end
end
return reply
