-- multiplan_refund.lua: give units back under each of several plans, as the script of each does.
-- KEYS:  key of each plan
-- ARGV:  of each plan its kind, and the arguments of its own script
-- Reply: of each plan what its own script replies
-- Cost:  that of each plan
-- Uses:  DECRBY EXISTS GET HMGET HSET PEXPIREAT PEXPIRETIME PTTL SET TIME ZADD ZRANGE ZRANGEBYSCORE ZRANK ZREM
--        ZREMRANGEBYSCORE ZREVRANGEBYSCORE ZSCORE
--@ whole
--@ now
-- Every key is looked at before any is changed: one that is another node's now ends the script, which is then sent
-- again.
for i = 1, #KEYS do
  redis.call('EXISTS', KEYS[i])
end
local reply, arg = {}, 1
for i = 1, #KEYS do
  local key, kind = KEYS[i], ARGV[arg]
  if kind == 'fw' then
    local units, closes = ARGV[arg + 1] + 0, ARGV[arg + 2] + 0
    arg = arg + 3
    --@ fixedwindow_return
    reply[i] = back
  elseif kind == 'sw' then
    local units, taken, window = ARGV[arg + 1] + 0, ARGV[arg + 2] + 0, ARGV[arg + 3] + 0
    arg = arg + 4
    --@ slidingwindow_return
    reply[i] = back
  elseif kind == 'sl' then
    local units, sum, taken = ARGV[arg + 1] + 0, ARGV[arg + 2] + 0, ARGV[arg + 3] + 0
    arg = arg + 4
    --@ slidinglog_entry
    --@ slidinglog_return
    reply[i] = back
  elseif kind == 'tb' then
    local units, left = ARGV[arg + 1] + 0, ARGV[arg + 2] + 0
    local leftPart, taken = ARGV[arg + 3] + 0, ARGV[arg + 4] + 0
    local refundedThen, burst = ARGV[arg + 5] + 0, ARGV[arg + 6] + 0
    local n, d, plan = ARGV[arg + 7] + 0, ARGV[arg + 8] + 0, ARGV[arg + 9]
    arg = arg + 10
    --@ tokenbucket_look
    --@ tokenbucket_return
    reply[i] = back
  else
    local spending, left, taken = ARGV[arg + 1] + 0, ARGV[arg + 2] + 0, ARGV[arg + 3] + 0
    local capacity, n = ARGV[arg + 4] + 0, ARGV[arg + 5] + 0
    arg = arg + 6
    --@ gcra_modulus
    --@ gcra_look
    --@ gcra_return
    reply[i] = back
  end
end
return reply
